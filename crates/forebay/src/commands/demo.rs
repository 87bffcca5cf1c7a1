//! (being written)
use crate::context::Context;
use clap::Args;
use forebay_model::Result;
use std::process::ExitCode;
/// Nothing.
#[derive(Args)]
pub struct DemoArgs {}
/// Nothing.
pub fn run(_context: &mut Context, _args: &DemoArgs) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
