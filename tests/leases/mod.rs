//! The rules of the two leases (leases.md §13): each test is named after the rule that it holds.

mod api;
