//! Jobs of a namespace as a table: whether each has finished, without fetching the Jobs.
//!
//! The API server prints `Complete` or `Failed` first of all and exactly when that condition is
//! True (engineering.md §7.4), so a 0.3 KB row answers what a 10 KB Job would.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use super::request::{Request, Resource};
use super::server::{ApiServer, Form, Query, decode};
use crate::names::key;
use crate::plugin::error::Error;

/// The STATUS column of one Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobRow {
    /// Condition Complete is True.
    Complete,
    /// Condition Failed is True.
    Failed,
    /// Unfinished and at work.
    Running,
    /// Unfinished and held back.
    Suspended,
    /// Unfinished and being deleted.
    Terminating,
    /// Unfinished: its pods are being ended before it becomes Complete or Failed.
    Ending,
}

impl JobRow {
    fn parse(status: &str) -> Option<Self> {
        match status {
            "Complete" => Some(Self::Complete),
            "Failed" => Some(Self::Failed),
            "Running" => Some(Self::Running),
            "Suspended" => Some(Self::Suspended),
            "Terminating" => Some(Self::Terminating),
            "FailureTarget" | "SuccessCriteriaMet" => Some(Self::Ending),
            _ => None,
        }
    }
}

/// Why a table did not answer.
#[derive(Debug)]
pub(crate) enum TableError {
    /// The server's columns are not the known ones: the Jobs themselves must be listed.
    Unfamiliar,
    /// The read failed.
    Failed(Error),
}

/// The Jobs of a namespace by name: those of the operator, or all of them.
///
/// # Errors
///
/// See [`TableError`].
pub(crate) async fn job_rows(
    server: &Arc<ApiServer>,
    namespace: &str,
    managed_only: bool,
) -> Result<HashMap<String, JobRow>, TableError> {
    let request = Request::list(Resource::JOBS, Some(namespace));
    let labels = if managed_only {
        format!("{}=true", key::MANAGED)
    } else {
        String::new()
    };
    let query = Query {
        labels,
        rows_only: true,
        ..Query::default()
    };
    let body = server
        .list_bytes(&request, &query, Form::Table, |_| ())
        .await
        .map_err(TableError::Failed)?;
    let table: Table = decode(&request, &body).map_err(TableError::Failed)?;
    table.jobs().ok_or(TableError::Unfamiliar)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table {
    #[serde(default)]
    column_definitions: Vec<Column>,
    #[serde(default)]
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Column {
    name: String,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<serde_json::Value>,
}

impl Table {
    /// The rows by name; nothing when a column is missing or a status is not known.
    fn jobs(&self) -> Option<HashMap<String, JobRow>> {
        let column = |name: &str| {
            self.column_definitions
                .iter()
                .position(|column| column.name == name)
        };
        let (name, status) = (column("Name")?, column("Status")?);
        let text = |row: &Row, at: usize| {
            row.cells
                .get(at)
                .and_then(|cell| cell.as_str().map(str::to_owned))
        };
        self.rows
            .iter()
            .map(|row| Some((text(row, name)?, JobRow::parse(&text(row, status)?)?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{JobRow, Table};

    fn table(columns: &str, rows: &str) -> Table {
        serde_json::from_str(&format!(
            "{{\"columnDefinitions\":{columns},\"rows\":{rows}}}"
        ))
        .unwrap()
    }

    const COLUMNS: &str = r#"[{"name":"Name"},{"name":"Completions"},{"name":"Status"}]"#;

    #[test]
    fn columns_are_found_by_name() {
        let table = table(
            COLUMNS,
            r#"[{"cells":["a","0/1","Running"]},{"cells":["b","1/1","Complete"]}]"#,
        );
        let jobs = table.jobs().unwrap();
        assert_eq!(jobs["a"], JobRow::Running);
        assert_eq!(jobs["b"], JobRow::Complete);
    }

    #[test]
    fn a_job_past_its_deadline_is_unfinished_until_it_failed() {
        let table = table(COLUMNS, r#"[{"cells":["a","0/1","FailureTarget"]}]"#);
        assert_eq!(table.jobs().unwrap()["a"], JobRow::Ending);
    }

    #[test]
    fn an_unknown_status_or_no_status_column_asks_for_the_jobs() {
        assert!(
            table(COLUMNS, r#"[{"cells":["a","0/1","Resting"]}]"#)
                .jobs()
                .is_none()
        );
        assert!(
            table(r#"[{"name":"Name"}]"#, r#"[{"cells":["a"]}]"#)
                .jobs()
                .is_none()
        );
    }
}
