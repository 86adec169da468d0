//! Waits for a lease: reason and message (seed: The wait reasons; leases.md §7).

use crate::names::{LeaseScope, Op};

/// How many Jobs a message names before it ends in ", …".
pub const MAX_NAMED_HOLDERS: usize = 5;

/// Why an operation waits for a lease instead of starting its Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Somebody else holds the run lease, or the cluster write lease that a second
    /// cluster operation wants.
    RunLease {
        /// Which lease.
        scope: LeaseScope,
        /// Its name.
        lease: String,
        /// The Job that holds it; empty when a race was lost and nobody is known.
        holder: String,
    },
    /// A machine or pool operation waits for its cluster's.
    ClusterOperation {
        /// The TerraformCluster's Job.
        holder: String,
        /// The Cluster.
        cluster: String,
    },
    /// A cluster operation waits for those of its machines and pools, keeping both
    /// leases.
    MachineOperations {
        /// Their Jobs, sorted.
        holders: Vec<String>,
    },
}

impl Wait {
    /// The reason of condition and event.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::RunLease { .. } => "WaitingForRunLease",
            Self::ClusterOperation { .. } => "WaitingForClusterOperation",
            Self::MachineOperations { .. } => "WaitingForMachineOperations",
        }
    }

    /// True when the waiting cluster keeps its leases (writer preference).
    #[must_use]
    pub fn keeps_leases(&self) -> bool {
        matches!(self, Self::MachineOperations { .. })
    }

    /// The message of the condition. "another manager took it first" is a fixed
    /// phrase that tools match.
    #[must_use]
    pub fn message(&self, op: Op) -> String {
        let op = op.as_str();
        match self {
            Self::RunLease {
                scope,
                lease,
                holder,
            } if holder.is_empty() => format!(
                "waiting for the {} {lease}: another manager took it first; the {op} starts once it is free",
                title(*scope)
            ),
            Self::RunLease {
                scope,
                lease,
                holder,
            } => format!(
                "waiting for the {} {lease}, held by Job {holder}; the {op} starts once it finishes",
                title(*scope)
            ),
            Self::ClusterOperation { holder, cluster } => {
                format!(
                    "the TerraformCluster's Job {holder} of cluster {cluster} must finish before the {op} starts"
                )
            }
            Self::MachineOperations { holders } => {
                let named = holders
                    .iter()
                    .take(MAX_NAMED_HOLDERS)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ");
                let more = if holders.len() > MAX_NAMED_HOLDERS {
                    ", …"
                } else {
                    ""
                };
                format!(
                    "{} machine and pool apply or destroy Jobs of the cluster must finish before the {op} starts: \
                     {named}{more}; new ones wait meanwhile",
                    holders.len()
                )
            }
        }
    }
}

/// How messages name a lease (leases.md §7).
fn title(scope: LeaseScope) -> &'static str {
    match scope {
        LeaseScope::Run => "run lease",
        LeaseScope::Cluster => "cluster write lease",
    }
}

#[cfg(test)]
mod tests {
    use super::Wait;
    use crate::names::{LeaseScope, Op};

    #[test]
    fn seven_live_machine_jobs_are_counted_and_five_named() {
        let holders = (1..=7).map(|n| format!("job-{n}")).collect();
        let said = Wait::MachineOperations { holders }.message(Op::Apply);
        assert!(said.starts_with('7'), "{said}");
        assert!(
            said.contains("job-1, job-2, job-3, job-4, job-5, …"),
            "{said}"
        );
        assert!(!said.contains("job-6"), "{said}");
    }

    #[test]
    fn a_lost_race_names_another_manager() {
        let wait = Wait::RunLease {
            scope: LeaseScope::Run,
            lease: "captf-run-x-c".into(),
            holder: String::new(),
        };
        assert!(
            wait.message(Op::Apply)
                .contains("another manager took it first")
        );
    }
}
