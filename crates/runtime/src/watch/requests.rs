//! Lists and watches: the requests, and the reading of their responses.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use api::lower::Source;
use api::protobuf::schema;
use http::{Method, Response, StatusCode};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout};

use super::decoder::{DecodeError, EventDecoder, WatchEvent};
use super::error::WatchError;
use super::objects::identity_of;
use super::page::ListPage;
use super::{
    DECODE_CHUNK_BYTES, EVENT_BYTES_MAX, INITIAL_EVENTS_END_ANNOTATION, PAGE_BYTES_MAX,
    PAGE_OBJECTS_MAX, PAGE_TIMEOUT, RESPONSE_HEAD_TIMEOUT, Reflector, SILENCE_MAX,
    WATCH_TIMEOUT_SECONDS, WatchEnd,
};
use crate::api_error::{ApiStatus, Encoding, JSON, PROTOBUF_OR_JSON, read_error};
use crate::client::{self, ApiRequest};

impl Reflector {
    /// Watches from the last resourceVersion or, with `listing`, from a streaming list.
    pub(super) async fn stream(&mut self, mut listing: bool) -> Result<WatchEnd, WatchError> {
        let from = if listing {
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=".to_owned()
        } else {
            format!("resourceVersion={}", self.objects.version)
        };
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_TIMEOUT_SECONDS}&{from}{}",
            self.selector()
        );
        let response = self.get(&query).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::GONE => return Ok(WatchEnd::Expired),
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY if listing => {
                return Ok(WatchEnd::StreamingListUnsupported);
            }
            _ => return Err(read_error(response).await.into()),
        }
        let status = Arc::clone(&self.status);
        let mut relist_requested = pin!(status.relist_requested_after(self.relist_generation));
        let mut decoder = EventDecoder::new(Encoding::of(&response), EVENT_BYTES_MAX);
        let mut body = response.into_body();
        let limit = |listing| if listing { PAGE_TIMEOUT } else { SILENCE_MAX };
        let mut received = Instant::now();
        // Checked when the timer fires instead of reset for each piece, which would cost more than
        // handling the piece.
        let mut silence = pin!(sleep_until(received + limit(listing)));
        loop {
            let data = tokio::select! {
                data = body.next() => data,
                () = &mut relist_requested => return Ok(WatchEnd::RelistRequested),
                () = &mut silence => {
                    let limit = limit(listing);
                    match (received + limit > Instant::now(), listing) {
                        (true, _) => silence.as_mut().reset(received + limit),
                        // A server without streaming lists sends all objects but no final bookmark.
                        (false, true) => return Ok(WatchEnd::StreamingListUnsupported),
                        (false, false) => return Err(WatchError::Silent(limit)),
                    }
                    continue;
                }
            };
            let Some(data) = data else { return Ok(WatchEnd::Closed) };
            let mut data = data.map_err(|error| WatchError::Body(error.into()))?;
            received = Instant::now();
            self.note_activity();
            // In chunks, since the decoder keeps its largest buffer for the life of the watch.
            while !data.is_empty() {
                decoder.push(data.split_to(data.len().min(DECODE_CHUNK_BYTES)));
                while let Some(event) = decoder.next_event() {
                    match event {
                        Ok(event) => {
                            if let Some(end) = self.handle_event(event, &mut listing).await? {
                                return Ok(end);
                            }
                        }
                        // Skipped: after a reconnect the server would send it again.
                        Err(error) => self.skip_unreadable(&error),
                    }
                }
            }
        }
    }

    /// Handles an event. Returns why the watch ends, if it does.
    async fn handle_event(
        &mut self,
        WatchEvent { kind, object }: WatchEvent<'_>,
        listing: &mut bool,
    ) -> Result<Option<WatchEnd>, WatchError> {
        if kind == "ERROR" {
            let status = ApiStatus::read(object.source(&schema::STATUS)).unwrap_or_default();
            let expired = matches!(status.reason.as_deref(), Some("Expired" | "Gone"));
            if expired || status.code == Some(410) {
                return Ok(Some(WatchEnd::Expired));
            }
            return Err(WatchError::ErrorEvent(status.message()));
        }
        let object = object.source(self.kind.message);
        let identity = match identity_of(object) {
            Ok(identity) => identity,
            Err(error) => {
                self.skip_unreadable(&error);
                return Ok(None);
            }
        };
        let version = identity.version;
        match kind {
            "ADDED" | "MODIFIED" => self.apply_object(object, identity).await,
            "DELETED" => {
                let gone = self.objects.delete(&identity);
                self.send_changes(gone).await;
            }
            "BOOKMARK" => {
                if *listing && ends_initial_events(object) {
                    *listing = false;
                    self.objects.check_list(version)?;
                    self.finish(version).await;
                }
                self.objects.version = self.objects.version.max(version);
            }
            other => self.skip_unreadable(&DecodeError::EventType(other.to_owned())),
        }
        Ok(None)
    }

    /// Lists by pages of one resourceVersion.
    pub(super) async fn list(&mut self) -> Result<WatchEnd, WatchError> {
        let mut token = String::new();
        loop {
            let query = format!("limit={PAGE_OBJECTS_MAX}&continue={token}{}", self.selector());
            self.throttle.wait().await;
            let response = self.get(&query).await?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::GONE => return Ok(WatchEnd::Expired),
                _ => return Err(read_error(response).await.into()),
            }
            let encoding = Encoding::of(&response);
            let body = timeout(PAGE_TIMEOUT, response.into_body().whole(PAGE_BYTES_MAX));
            let page = body.await.map_err(|_| WatchError::PageTimeout)?;
            let page = page.map_err(|error| WatchError::Body(error.into()))?;
            self.note_activity();
            let page = ListPage::read(encoding, &page).map_err(WatchError::Page)?;
            // Checked before any of its objects is applied.
            self.objects.check_list(page.version)?;
            for object in &page.objects {
                let object = object.source(self.kind.message);
                match identity_of(object) {
                    Ok(identity) => self.apply_object(object, identity).await,
                    Err(error) => self.skip_unreadable(&error),
                }
            }
            token = percent_encode(&page.next);
            if token.is_empty() {
                self.finish(page.version).await;
                return Ok(WatchEnd::Listed);
            }
        }
    }

    async fn get(&mut self, query: &str) -> Result<Response<client::ResponseBody>, WatchError> {
        let path = format!("{}?{query}", self.kind.path);
        // Extenders receive nodes as JSON.
        let accept = if self.node_store.is_some() { JSON } else { PROTOBUF_OR_JSON };
        let request = ApiRequest {
            method: Method::GET,
            path,
            accept: accept.into(),
            content: None,
            status_only: false,
            timeout: None,
        };
        self.answered = false;
        let response = timeout(RESPONSE_HEAD_TIMEOUT, self.connection.open(request)).await;
        let response = response.map_err(|_| WatchError::NoResponse)?;
        let response = response.map_err(|error| WatchError::Request(error.into()))?;
        self.answered = true;
        Ok(response)
    }

    fn selector(&self) -> String {
        match self.kind.field_selector {
            "" => String::new(),
            selector => format!("&fieldSelector={}", percent_encode(selector)),
        }
    }

    fn note_activity(&self) {
        self.metrics.note_watch_activity(self.kind.name, Instant::now());
    }
}

/// Returns `true` if a bookmark ends a streaming list.
fn ends_initial_events(bookmark: Source<'_>) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Bookmark {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        annotations: HashMap<String, String>,
    }
    let read = bookmark.read::<Bookmark>();
    read.is_ok_and(|bookmark| {
        bookmark.metadata.annotations.contains_key(INITIAL_EVENTS_END_ANNOTATION)
    })
}

/// Encodes a value of a query.
pub(super) fn percent_encode(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
