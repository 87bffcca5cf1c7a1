//! How a process reaches a cluster on the network: its manager, with an access key, and the files.

use crate::grpc::GrpcControl;
use crate::server::{CREDIT, UPKEEP_CREDIT};
use crate::tls::trusting;
use forebay_client::files::Files;
use forebay_client::files::blocking::FilesClient;
use forebay_client::nodes::{Nodes, PATIENCE};
pub use forebay_control::ClientTls;
use forebay_control::{AccessKey, ClientOptions, ControlClient};
use forebay_env::real;
use forebay_model::Result;
use std::future::Future;
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
        let tls = trusting(self.tls.as_ref())?;
        FilesClient::start_with(tls, move |env| async move {
            let nodes = Nodes::new(env, CREDIT.0 as usize, self.patience.min(PATIENCE));
            Ok(Files::new(nodes, Rc::new(GrpcControl(self.connected().await?))))
        })
    }

    /// The files, for one who looks after them: the manager need not answer now, and may go away.
    pub(crate) fn upkeep(self) -> Result<FilesClient> {
        let tls = trusting(self.tls.as_ref())?;
        FilesClient::start_with(tls, move |env| async move {
            let nodes = Nodes::new(env, UPKEEP_CREDIT.0 as usize, PATIENCE);
            Ok(Files::new(nodes, Rc::new(GrpcControl(self.toward()?))))
        })
    }

    /// Does some work with the manager, on this thread.
    pub fn ask<T: 'static, F>(self, work: impl FnOnce(ControlClient) -> F + 'static) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        real::run_network(|_| async move { work(self.connected().await?).await })?
    }

    /// A way to the manager, which need not answer now.
    pub(crate) fn toward(self) -> Result<ControlClient> {
        let Reach { manager, key, tls, patience } = self;
        ControlClient::toward(&manager, key, ClientOptions { tls, patience, ..ClientOptions::default() })
    }

    async fn connected(self) -> Result<ControlClient> {
        let Reach { manager, key, tls, patience } = self;
        let options = ClientOptions { tls, patience, ..ClientOptions::default() };
        ControlClient::connect(&manager, key, options).await
    }
}
