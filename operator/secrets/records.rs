//! The two inputs records of an object: what the newest apply Job was given (attempt), and what the
//! newest successful one was given (applied) (state-secrets.md §5).

mod marks;
mod record;
mod write;

pub use marks::{Interruption, Marks, mark};
pub use record::{Record, RecordKind, Records, read};
pub use write::{Promotion, promote, write_attempt};
