use super::*;
use crate::client::{ClientOptions, ControlClient};
use crate::fake::{KEY, Keys, SECRET, now, question, serve_at};
use crate::server::ServerOptions;
use forebay_env::real::run_network;
use forebay_model::Kind;
use forebay_wire::control::Reply;

/// From now on the client shows a token of which the server does not know.
async fn lose_the_session(client: &ControlClient) {
    let mut current = client.shared.asking.link.current.lock().await;
    current.session.as_mut().expect("there is a session").token = MetadataValue::from_bytes(&[9; 16]);
}

#[test]
fn it_proves_again_who_it_is_when_the_server_does_not_know_its_session() {
    let keys = Keys::new();
    let server = serve_at("127.0.0.1:0", &keys, ServerOptions::default(), |_, _| now(Ok(Reply::Done)));
    let test = |_| async move {
        let key = AccessKey { key: KEY, secret: SECRET };
        let options = ClientOptions { patience: Duration::from_secs(600), ..ClientOptions::default() };
        let client = ControlClient::connect(&server.address().to_string(), key, options).await.expect("it answers");
        lose_the_session(&client).await;
        assert_eq!(client.ask(question()).await, Ok(Reply::Done));
        keys.revoke(KEY);
        assert_eq!(client.ask(question()).await, Ok(Reply::Done), "its session goes on");
        lose_the_session(&client).await;
        assert_eq!(client.ask(question()).await.map_err(|error| error.kind), Err(Kind::Forbidden));
    };
    run_network(test).expect("a loop");
}
