//! Open files and what is granted for them, as messages.

use super::messages;
use forebay_wire::control::files::{
    After, ClientGone, Close, Component, Fence, Grant, Granted, Grants, OpenFile, OpenFiles, OpenToRead, OpenToWrite,
    Renew, Renewed, Revoke, Scrubbed, Unscrubbed,
};

messages! {
    OpenToWrite as OpenToWrite { place, alone }
    OpenToRead as OpenToRead { place }
    Close as Close { file, size, modified }
    Renew as Renew { files }
    Renewed as Renewed { file, write }
    Grant as Grant { entry, write, striping, components, until }
    Component as Component { target, object, capability, secret }
    Grants as Grants { grants }
    Granted as Granted { grant, error }
    Revoke as Revoke { file }
    Fence as Fence { file, version }
    ClientGone as ClientGone { client }
    Scrubbed as Scrubbed { file }
    OpenFiles as OpenFiles { files, more }
    OpenFile as OpenFile { file, client, since }
    Unscrubbed as Unscrubbed { files, more }
    After as After { file, most }
}
