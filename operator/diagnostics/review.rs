//! Who may ask: the API server decides, by the bearer token and the path.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use tokio::sync::Semaphore;

use crate::client::{Access, ApiError};

/// Requests that are judged at once; more wait, so that a flood of them does not become one of reviews.
const AT_ONCE: usize = 4;

/// Asks the API server about requests.
#[derive(Clone)]
pub(super) struct Reviewer {
    access: Access,
    turns: Arc<Semaphore>,
}

/// What becomes of a request.
#[derive(Debug)]
enum Verdict {
    Allowed,
    /// No token, or one that the API server does not know.
    Unauthenticated,
    /// A known user without the right.
    Denied(String),
}

impl Reviewer {
    pub(super) fn new(access: Access) -> Self {
        Self {
            access,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    async fn judge(
        &self,
        token: Option<&str>,
        verb: &str,
        path: &str,
    ) -> Result<Verdict, ApiError> {
        let Some(token) = token else {
            return Ok(Verdict::Unauthenticated);
        };
        let _turn = self.turns.acquire().await;
        let Some(user) = self.user_of(token).await? else {
            return Ok(Verdict::Unauthenticated);
        };
        let name = user.username.clone().unwrap_or_default();
        Ok(if self.may(user, verb, path).await? {
            Verdict::Allowed
        } else {
            Verdict::Denied(name)
        })
    }

    async fn user_of(&self, token: &str) -> Result<Option<UserInfo>, ApiError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviewed = self
            .access
            .create(&self.access.cluster_api::<TokenReview>(), &review)
            .await?;
        let status = reviewed.status.unwrap_or_default();
        Ok(if status.authenticated == Some(true) {
            status.user
        } else {
            None
        })
    }

    async fn may(&self, user: UserInfo, verb: &str, path: &str) -> Result<bool, ApiError> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    verb: Some(verb.to_owned()),
                    path: Some(path.to_owned()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviewed = self
            .access
            .create(&self.access.cluster_api::<SubjectAccessReview>(), &review)
            .await?;
        Ok(reviewed
            .status
            .is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

/// Lets a request pass that the API server allows: verb = method in lower case, path = the request's.
pub(super) async fn guard(
    State(reviewer): State<Reviewer>,
    request: Request,
    next: Next,
) -> Response {
    let verb = request.method().as_str().to_ascii_lowercase();
    let path = request.uri().path().to_owned();
    let token = bearer(request.headers()).map(str::to_owned);
    match reviewer.judge(token.as_deref(), &verb, &path).await {
        Ok(Verdict::Allowed) => next.run(request).await,
        Ok(Verdict::Unauthenticated) => {
            (StatusCode::UNAUTHORIZED, "Unauthorized\n").into_response()
        }
        Ok(Verdict::Denied(user)) => (
            StatusCode::FORBIDDEN,
            format!("Authorization denied for user {user}\n"),
        )
            .into_response(),
        Err(error) => {
            tracing::warn!(error = %error, path, "a diagnostics request could not be judged");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "the request could not be judged\n",
            )
                .into_response()
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers
        .get(header::AUTHORIZATION)?
        .to_str()
        .ok()?
        .trim()
        .split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}
