//! Open files and what is granted for them, as messages.

use super::{enums, messages};
use forebay_wire::control::files::{
    After, AskDegraded, AskUnverified, Caching, Callback, Called, ClientGone, Close, Component, ComponentState,
    CreateHeap, CreateRing, Degraded, Displaced, Fence, FoundDamaged, GiveUp, GivenUp, Grant, Granted, Grants, Kept,
    Listen, MakeWay, Moving, OpenFile, OpenFiles, OpenHeap, OpenRing, OpenToRead, OpenToWrite, Rebuilt, Refill,
    Relocate, Relocated, Relocating, Relocation, Renew, Renewed, Revoke, Scrubbed, Unscrubbed, Unverified, Verified,
};

enums! {
    ComponentState { Whole, Missed, Emptying, Filling }
    Caching { Nothing, Shared, Exclusive }
}

messages! {
    OpenToWrite as OpenToWrite { place, alone, upkeep, yields, cached }
    OpenToRead as OpenToRead { place, cached }
    CreateRing as CreateRing { place, mode, capacity, refused_by, targets, parity, again, leaving }
    OpenRing as OpenRing { place, write }
    CreateHeap as CreateHeap { place, mode, refused_by }
    OpenHeap as OpenHeap { place, write }
    Close as Close { file, size, modified, upkeep, unfinished, cuts }
    Renew as Renew { files }
    Renewed as Renewed { file, write, version }
    Grant as Grant { entry, write, striping, components, until, callback, moving, left }
    Moving as Moving { component, place, moved }
    Callback as Callback { file, caching, serial }
    Kept as Kept { file, caching, serial, write }
    Listen as Listen { kept, all, part, more }
    Called as Called { files, unknown, crowded }
    MakeWay as MakeWay { place, write, cached }
    Component as Component { target, object, capability, secret, state }
    Grants as Grants { grants }
    Granted as Granted { grant, error }
    Revoke as Revoke { file }
    Fence as Fence { file, version }
    GiveUp as GiveUp { file, components, version }
    GivenUp as GivenUp { file, version }
    Refill as Refill { file, component, version, emptied }
    Rebuilt as Rebuilt { file, component, version }
    AskDegraded as AskDegraded { file, most, left }
    Degraded as Degraded { files, more }
    Relocate as Relocate { file, last }
    Relocating as Relocating { file }
    Relocation as Relocation { component, version, from, to, until, hurries }
    Relocated as Relocated { file, component, version, recorded }
    Displaced as Displaced { files, more }
    ClientGone as ClientGone { client }
    Scrubbed as Scrubbed { file }
    OpenFiles as OpenFiles { files, more }
    OpenFile as OpenFile { file, client, since }
    Unscrubbed as Unscrubbed { files, more }
    Verified as Verified { file, began }
    FoundDamaged as FoundDamaged { file }
    AskUnverified as AskUnverified { after, most, since }
    Unverified as Unverified { files, next }
    After as After { file, most }
}
