//! Users, keys, and how a connection proves whose it is, as messages.

use super::messages;
use forebay_wire::control::access::{
    Challenge, Hello, IssueKey, IssuedKey, Key, Keys, Proven, RemoveUser, RevokeKey, User,
};

messages! {
    Hello as Hello { key, client, nonce }
    Challenge as Challenge { nonce }
    Proven as Proven { proof }
    User as User { user, name, groups }
    RemoveUser as RemoveUser { user }
    IssueKey as IssueKey { user, label }
    IssuedKey as IssuedKey { key, secret }
    Key as Key { key, user, label, issued }
    Keys as Keys { user }
    RevokeKey as RevokeKey { key }
}
