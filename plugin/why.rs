use super::error::Error;
use super::exit::Exit;
use super::settings::Settings;
use clap::Args;
/// x
#[derive(Args, Clone, Debug)]
pub(crate) struct WhyArgs {
    /// x
    objects: Vec<String>,
}
/// x
pub(crate) async fn run(_a: &WhyArgs, _s: Settings) -> Result<Exit, Error> {
    Ok(Exit::Done)
}
