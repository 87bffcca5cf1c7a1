//! How a process reaches the files of a cluster on the network: its manager, with an access key.

use crate::grpc::GrpcControl;
use crate::server::CREDIT;
use forebay_client::files::Files;
use forebay_client::files::blocking::FilesClient;
use forebay_client::nodes::{Nodes, PATIENCE};
use forebay_control::ClientTls;
use forebay_control::{AccessKey, ClientOptions, ControlClient};
use forebay_model::Result;
use std::rc::Rc;
use std::time::Duration;

/// How a cluster is reached.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Its manager: `host:port`.
    pub manager: String,
    /// In whose name.
    pub key: AccessKey,
    /// Whom to trust; not needed on one machine.
    pub tls: Option<ClientTls>,
    /// For how long it is asked again who does not answer.
    pub patience: Duration,
}

impl Reach {
    /// The files.
    pub fn files(self) -> Result<FilesClient> {
        FilesClient::start(move |env| async move {
            let Reach { manager, key, tls, patience } = self;
            let options = ClientOptions { tls, patience, ..ClientOptions::default() };
            let control = ControlClient::connect(&manager, key, options).await?;
            let nodes = Nodes::new(env, CREDIT.0 as usize, patience.min(PATIENCE));
            Ok(Files::new(nodes, Rc::new(GrpcControl(control))))
        })
    }
}
