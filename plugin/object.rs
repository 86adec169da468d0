//! Naming an object on the command line (cli.md §4).

use std::fmt;
use std::str::FromStr;

use super::read::Resource;
use crate::names::Kind;

/// A kind as a person may write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindName {
    /// One of the operator's workload kinds.
    Workload(Kind),
    /// Cluster API's Cluster: stands for the TerraformCluster of its `infrastructureRef`.
    Cluster,
    /// A run Job: stands for the object in its owner labels.
    Job,
    /// A pod of a run Job: stands for the object of that Job.
    Pod,
    /// A lease: stands for the object in its owner labels.
    Lease,
}

impl KindName {
    /// Singular, lower case.
    pub(crate) const fn singular(self) -> &'static str {
        match self {
            Self::Workload(kind) => resource_of(kind).singular,
            Self::Cluster => "cluster",
            Self::Job => "job",
            Self::Pod => "pod",
            Self::Lease => "lease",
        }
    }
}

/// The resource of a workload kind.
pub(crate) const fn resource_of(kind: Kind) -> Resource {
    match kind {
        Kind::TerraformCluster => Resource::TERRAFORM_CLUSTERS,
        Kind::TerraformMachine => Resource::TERRAFORM_MACHINES,
        Kind::TerraformMachinePool => Resource::TERRAFORM_MACHINE_POOLS,
    }
}

/// Every spelling of a kind; a group may follow after a dot.
const SPELLINGS: [(KindName, &[&str]); 7] = [
    (
        KindName::Workload(Kind::TerraformCluster),
        &["tfc", "terraformcluster", "terraformclusters"],
    ),
    (
        KindName::Workload(Kind::TerraformMachine),
        &["tfm", "terraformmachine", "terraformmachines"],
    ),
    (
        KindName::Workload(Kind::TerraformMachinePool),
        &["tfmp", "terraformmachinepool", "terraformmachinepools"],
    ),
    (KindName::Cluster, &["cluster", "clusters"]),
    (KindName::Job, &["job", "jobs"]),
    (KindName::Pod, &["pod", "pods"]),
    (KindName::Lease, &["lease", "leases"]),
];

impl FromStr for KindName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.to_ascii_lowercase();
        let (word, group) = lower
            .split_once('.')
            .map_or((lower.as_str(), None), |(word, group)| (word, Some(group)));
        let kind = SPELLINGS
            .iter()
            .find(|(_, words)| words.contains(&word))
            .map(|(kind, _)| *kind)
            .ok_or_else(|| unknown_kind(text))?;
        match group {
            Some(group) if !group_fits(kind, group) => Err(unknown_kind(text)),
            _ => Ok(kind),
        }
    }
}

fn group_fits(kind: KindName, group: &str) -> bool {
    let expected = match kind {
        KindName::Workload(kind) => resource_of(kind).group,
        KindName::Cluster => Resource::CLUSTERS.group,
        KindName::Job => Resource::JOBS.group,
        KindName::Pod => return false,
        KindName::Lease => Resource::LEASES.group,
    };
    // `kind.version.group` is a form that kubectl takes as well.
    group == expected || group.ends_with(&format!(".{expected}"))
}

fn unknown_kind(text: &str) -> String {
    format!(
        "\"{text}\" is no kind that can be explained; known are terraformcluster (tfc), \
         terraformmachine (tfm), terraformmachinepool (tfmp), cluster, job, pod and lease"
    )
}

/// `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Kind.
    pub(crate) kind: KindName,
    /// Name.
    pub(crate) name: String,
}

impl Reference {
    /// A reference.
    pub(crate) fn new(kind: KindName, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, name) = text
            .split_once('/')
            .filter(|(kind, name)| !kind.is_empty() && !name.is_empty() && !name.contains('/'))
            .ok_or_else(|| format!("\"{text}\" is not KIND/NAME, as in terraformcluster/demo"))?;
        Ok(Self::new(kind.parse()?, name))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.singular(), self.name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{Kind, KindName, Reference};
    use rstest::rstest;

    #[rstest]
    #[case("tfc", KindName::Workload(Kind::TerraformCluster))]
    #[case("TerraformClusters", KindName::Workload(Kind::TerraformCluster))]
    #[case(
        "terraformmachine.infrastructure.cluster.x-k8s.io",
        KindName::Workload(Kind::TerraformMachine)
    )]
    #[case(
        "terraformmachinepools.v1alpha1.infrastructure.cluster.x-k8s.io",
        KindName::Workload(Kind::TerraformMachinePool)
    )]
    #[case("cluster.cluster.x-k8s.io", KindName::Cluster)]
    #[case("jobs.batch", KindName::Job)]
    #[case("pod", KindName::Pod)]
    fn kinds_are_found_by_every_usual_spelling(#[case] text: &str, #[case] expected: KindName) {
        assert_eq!(text.parse::<KindName>().unwrap(), expected);
    }

    #[rstest]
    #[case("deployment")]
    #[case("terraformcluster.apps")]
    fn other_kinds_are_refused_with_the_known_ones(#[case] text: &str) {
        assert!(
            text.parse::<KindName>()
                .unwrap_err()
                .contains("terraformcluster (tfc)")
        );
    }

    #[rstest]
    #[case("demo")]
    #[case("tfc/")]
    #[case("/demo")]
    #[case("tfc/a/b")]
    fn a_reference_is_kind_slash_name(#[case] text: &str) {
        assert!(text.parse::<Reference>().is_err(), "{text}");
    }
}
