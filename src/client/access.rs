//! Calls under a limit, with guarded writes.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::core::{
    ApiResource, ClusterResourceScope, DynamicObject, NamespaceResourceScope, ObjectMeta, Resource,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Cause;
use super::{ApiError, Clock};

/// Page size of live lists: large kinds are held decoded one page at a time.
const PAGE: u32 = 500;

/// The field manager of our writes.
const FIELD_MANAGER: &str = "captf-manager";

/// What a delete must find unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The uid read.
    pub uid: String,
    /// The resourceVersion read; `None` guards the identity only.
    pub resource_version: Option<String>,
}

impl Guard {
    /// Guards the object exactly as it was read.
    #[must_use]
    pub fn exact<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: Some(meta.resource_version.clone().unwrap_or_default()),
        }
    }

    /// Guards the identity of the object, whatever was written to it since.
    #[must_use]
    pub fn uid(uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            resource_version: None,
        }
    }
}

/// What a guarded delete did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// This call deleted it.
    Deleted,
    /// It did not exist any more.
    Gone,
    /// It is another object, or was written since it was read.
    Changed,
}

/// Calls to the API server, each under the same limit, on the corrected clock.
#[derive(Clone)]
pub struct Access {
    client: kube::Client,
    clock: Clock,
    limit: Duration,
}

impl Access {
    /// Calls through `client`, each within `limit`.
    #[must_use]
    pub fn new(client: kube::Client, clock: Clock, limit: Duration) -> Self {
        Self {
            client,
            clock,
            limit,
        }
    }

    /// The client below, for watches.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The limit of each call.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// The API server's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The API of a namespaced kind in `namespace`.
    #[must_use]
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The API of a namespaced kind in all namespaces.
    #[must_use]
    pub fn api_all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType: Default>,
    {
        Api::all(self.client.clone())
    }

    /// The API of a cluster-scoped kind.
    #[must_use]
    pub fn cluster_api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType: Default>,
    {
        Api::all(self.client.clone())
    }

    /// Reads `name` from the API server, never from a cache; `None` when it does
    /// not exist.
    ///
    /// # Errors
    /// Any answer but the object and 404.
    pub async fn get<K>(&self, api: &Api<K>, name: &str) -> Result<Option<K>, ApiError>
    where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        self.call("get", || describe::<K>(api, name), api.get_opt(name))
            .await
    }

    /// Lists what the selectors match, read from the API server (a quorum read),
    /// in pages.
    ///
    /// # Errors
    /// When any page fails.
    pub async fn list<K>(&self, api: &Api<K>, selection: &ListParams) -> Result<Vec<K>, ApiError>
    where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        let mut params = selection.clone().limit(PAGE);
        let mut items = Vec::new();
        loop {
            let page = self
                .call("list", || describe_list::<K>(api), api.list(&params))
                .await?;
            items.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(items),
            }
        }
    }

    /// Metadata of the objects of a kind that has no type here.
    ///
    /// # Errors
    /// When any page fails; 404 when the kind is not installed.
    pub async fn list_metadata(
        &self,
        namespace: &str,
        resource: &ApiResource,
        selection: &ListParams,
    ) -> Result<Vec<ObjectMeta>, ApiError> {
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, resource);
        let object = || format!("{} in namespace {namespace}", resource.plural);
        let mut params = selection.clone().limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = self
                .call("list", object, api.list_metadata(&params))
                .await?;
            found.extend(page.items.into_iter().map(|item| item.metadata));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// Creates `object`.
    ///
    /// # Errors
    /// [`ApiError::create_failure`] tells whether nothing was made.
    pub async fn create<K>(&self, api: &Api<K>, object: &K) -> Result<K, ApiError>
    where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let name = object.meta().name.as_deref().unwrap_or_default();
        self.call(
            "create",
            || describe::<K>(api, name),
            api.create(&post_params(), object),
        )
        .await
    }

    /// Replaces the whole object; its metadata must carry the uid and
    /// resourceVersion that were read. Only for kinds whose every field is ours
    /// (Leases, RoleBindings).
    ///
    /// # Errors
    /// A conflict when it was written, deleted or made anew since.
    pub async fn update<K>(&self, api: &Api<K>, object: &K) -> Result<K, ApiError>
    where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let name = object.meta().name.as_deref().unwrap_or_default();
        #[allow(clippy::disallowed_methods, reason = "the one guarded replace")]
        self.call(
            "update",
            || describe::<K>(api, name),
            api.replace(name, &post_params(), object),
        )
        .await
    }

    /// Merge patch of the main resource. Put `metadata.resourceVersion` into
    /// `patch` to make it conditional.
    ///
    /// # Errors
    /// A conflict when the resourceVersion in the patch is stale.
    pub async fn patch<K>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<K, ApiError>
    where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        self.call(
            "patch",
            || describe::<K>(api, name),
            api.patch(name, &patch_params(), &Patch::Merge(patch)),
        )
        .await
    }

    /// Merge patch of the status subresource, conditional as [`Access::patch`].
    ///
    /// # Errors
    /// A conflict when the resourceVersion in the patch is stale.
    pub async fn patch_status<K>(
        &self,
        api: &Api<K>,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<K, ApiError>
    where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        self.call(
            "patch",
            || describe::<K>(api, name),
            api.patch_status(name, &patch_params(), &Patch::Merge(patch)),
        )
        .await
    }

    /// Deletes `name` only if it still is what `guard` names. Dependents go in the
    /// background: the API server's default for Jobs would orphan their pods.
    ///
    /// # Errors
    /// Any answer but success, 404 and 409.
    pub async fn delete<K>(
        &self,
        api: &Api<K>,
        name: &str,
        guard: &Guard,
    ) -> Result<Deletion, ApiError>
    where
        K: Resource<DynamicType: Default> + Clone + DeserializeOwned + Debug,
    {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(guard.uid.clone()),
                resource_version: guard.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        match self
            .call(
                "delete",
                || describe::<K>(api, name),
                api.delete(name, &params),
            )
            .await
        {
            Ok(_) => Ok(Deletion::Deleted),
            Err(error) if error.is_not_found() => Ok(Deletion::Gone),
            Err(error) if error.is_conflict() => Ok(Deletion::Changed),
            Err(error) => Err(error),
        }
    }

    async fn call<T>(
        &self,
        verb: &'static str,
        object: impl FnOnce() -> String,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ApiError> {
        match tokio::time::timeout(self.limit, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(ApiError::new(verb, object(), Cause::from(error))),
            Err(_) => Err(ApiError::new(verb, object(), Cause::Timeout(self.limit))),
        }
    }
}

impl Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("clock", &self.clock)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

fn describe<K: Resource<DynamicType: Default>>(api: &Api<K>, name: &str) -> String {
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    match api.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn describe_list<K: Resource<DynamicType: Default>>(api: &Api<K>) -> String {
    let plural = K::plural(&K::DynamicType::default()).into_owned();
    match api.namespace() {
        Some(namespace) => format!("{plural} in namespace {namespace}"),
        None => plural,
    }
}

/// Creates and replaces in the name of our field manager.
fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// Patches in the name of our field manager.
fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
