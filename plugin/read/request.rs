//! What is asked of the API server, and how to say it in a message.

use std::fmt;

/// A resource by its compiled-in names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// API group, empty for the core group.
    pub(crate) group: &'static str,
    /// API version.
    pub(crate) version: &'static str,
    /// Plural, lower case.
    pub(crate) plural: &'static str,
    /// Singular, lower case: the way messages name an object.
    pub(crate) singular: &'static str,
}

/// API group of the operator's kinds.
const CAPTF: &str = "infrastructure.cluster.x-k8s.io";

impl Resource {
    const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Self {
            group,
            version,
            plural,
            singular,
        }
    }

    /// Leases.
    pub(crate) const LEASES: Self = Self::new("coordination.k8s.io", "v1", "leases", "lease");
    /// Jobs.
    pub(crate) const JOBS: Self = Self::new("batch", "v1", "jobs", "job");
    /// Pods.
    pub(crate) const PODS: Self = Self::new("", "v1", "pods", "pod");
    /// Namespaces.
    pub(crate) const NAMESPACES: Self = Self::new("", "v1", "namespaces", "namespace");
    /// Nodes.
    pub(crate) const NODES: Self = Self::new("", "v1", "nodes", "node");
    /// Events.
    pub(crate) const EVENTS: Self = Self::new("events.k8s.io", "v1", "events", "event");
    /// Deployments.
    pub(crate) const DEPLOYMENTS: Self = Self::new("apps", "v1", "deployments", "deployment");
    /// Cluster API's Clusters.
    pub(crate) const CLUSTERS: Self =
        Self::new("cluster.x-k8s.io", "v1beta2", "clusters", "cluster");
    /// TerraformClusters.
    pub(crate) const TERRAFORM_CLUSTERS: Self =
        Self::new(CAPTF, "v1alpha1", "terraformclusters", "terraformcluster");
    /// TerraformMachines.
    pub(crate) const TERRAFORM_MACHINES: Self =
        Self::new(CAPTF, "v1alpha1", "terraformmachines", "terraformmachine");
    /// TerraformMachinePools.
    pub(crate) const TERRAFORM_MACHINE_POOLS: Self = Self::new(
        CAPTF,
        "v1alpha1",
        "terraformmachinepools",
        "terraformmachinepool",
    );

    /// `leases.coordination.k8s.io`, or `pods`: the form of `kubectl auth can-i` and `-o name`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `infrastructure.cluster.x-k8s.io/v1alpha1 terraformclusters`.
    pub(crate) fn served_name(&self) -> String {
        if self.group.is_empty() {
            format!("{} {}", self.version, self.plural)
        } else {
            format!("{}/{} {}", self.group, self.version, self.plural)
        }
    }

    /// Path of the collection, or of the collection in one namespace.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{}", self.plural),
            None => format!("{root}/{}", self.plural),
        }
    }
}

/// The read-only verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// One object by name.
    Get,
    /// A collection.
    List,
}

impl Verb {
    /// The verb as RBAC spells it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
        }
    }
}

/// One read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Get or list.
    pub(crate) verb: Verb,
    /// Of what.
    pub(crate) resource: Resource,
    /// Where; none is cluster-wide.
    pub(crate) namespace: Option<String>,
    /// Which, for a get.
    pub(crate) name: Option<String>,
}

impl Request {
    /// A get of one object.
    pub(crate) fn get(resource: Resource, namespace: Option<&str>, name: &str) -> Self {
        Self {
            verb: Verb::Get,
            resource,
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
        }
    }

    /// A list of a namespace, or of all of them.
    pub(crate) fn list(resource: Resource, namespace: Option<&str>) -> Self {
        Self {
            verb: Verb::List,
            resource,
            namespace: namespace.map(str::to_owned),
            name: None,
        }
    }

    /// The arguments of `kubectl auth can-i` that ask whether this read is allowed.
    pub(crate) fn can_i(&self) -> String {
        let scope = match &self.namespace {
            Some(namespace) => format!(" -n {namespace}"),
            None => " -A".to_owned(),
        };
        format!(
            "{} {}{scope}",
            self.verb.as_str(),
            self.resource.qualified()
        )
    }

    /// Path of the request, without a query.
    pub(crate) fn path(&self) -> String {
        let collection = self.resource.path(self.namespace.as_deref());
        match &self.name {
            Some(name) => format!("{collection}/{name}"),
            None => collection,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "get {} {name}", self.resource.singular)?,
            None => write!(f, "list {}", self.resource.plural)?,
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace \"{namespace}\""),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Request, Resource};

    #[test]
    fn a_request_reads_as_a_sentence_and_as_a_permission() {
        let list = Request::list(Resource::LEASES, Some("team-a"));
        assert_eq!(list.to_string(), "list leases in namespace \"team-a\"");
        assert_eq!(list.can_i(), "list leases.coordination.k8s.io -n team-a");
        assert_eq!(
            list.path(),
            "/apis/coordination.k8s.io/v1/namespaces/team-a/leases"
        );
        let get = Request::get(Resource::PODS, Some("team-a"), "p");
        assert_eq!(get.path(), "/api/v1/namespaces/team-a/pods/p");
        assert_eq!(
            Request::list(Resource::JOBS, None).can_i(),
            "list jobs.batch -A"
        );
    }
}
