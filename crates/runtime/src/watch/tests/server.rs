//! An API server that keeps the history of one kind, and an observer of its reflector's inputs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use engine::object::ObjectName;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::*;
use crate::testing::{FakeApiServer, ReceivedRequest};

/// An object: its uid and version.
type Object = (String, u64);

#[derive(Clone)]
enum HistoryEvent {
    Put(String, Object),
    Deleted(String, Object),
}

pub(super) struct HistoryServer {
    pub(super) objects: BTreeMap<String, Object>,
    pub(super) version: u64,
    /// Events with their versions.
    history: Vec<(u64, HistoryEvent)>,
    /// Versions up to this one have expired.
    compacted: u64,
    pub(super) streaming_lists: Result<(), u16>,
    /// Reports an expired version by an `ERROR` event instead of a status code.
    pub(super) expires_by_event: bool,
    pub(super) page: usize,
    /// Replies to the next requests; `None` is the server's own reply.
    pub(super) script: VecDeque<Option<Reply>>,
    /// Numbers of bytes after which the next streams are cut.
    pub(super) cuts: VecDeque<usize>,
    /// Number of versions that streams repeat.
    pub(super) repeats: u64,
    /// Replies are protobuf instead of JSON.
    pub(super) protobuf: bool,
    changed: std::sync::Arc<Notify>,
    epoch: u64,
}

impl HistoryServer {
    pub(super) fn put(&mut self, name: &str) {
        self.put_silently(name);
        self.changed.notify_waiters();
    }

    /// Puts an object without an event.
    pub(super) fn put_silently(&mut self, name: &str) {
        self.version += 1;
        let version = self.version;
        let uid = self.objects.get(name).map_or_else(|| format!("uid-{version}"), |o| o.0.clone());
        self.objects.insert(name.to_owned(), (uid.clone(), version));
        self.history.push((version, HistoryEvent::Put(name.to_owned(), (uid, version))));
    }

    pub(super) fn delete(&mut self, name: &str) {
        if let Some((uid, _)) = self.objects.remove(name) {
            self.version += 1;
            let gone = HistoryEvent::Deleted(name.to_owned(), (uid, self.version));
            self.history.push((self.version, gone));
            self.changed.notify_waiters();
        }
    }

    /// Ends all streams.
    pub(super) fn disconnect(&mut self) {
        self.epoch += 1;
        self.changed.notify_waiters();
    }

    /// Expires all versions so far, as a compaction of etcd does.
    pub(super) fn compact(&mut self) {
        self.compacted = self.version;
    }

    /// Encodes an event of the history.
    pub(super) fn event(&self, position: usize) -> Vec<u8> {
        self.encode_event(&self.history[position].1)
    }

    fn events_after(&self, version: u64) -> Vec<u8> {
        let after = self.history.iter().filter(|(at, _)| *at > version);
        after.flat_map(|(_, event)| self.encode_event(event)).collect()
    }

    /// Encodes all objects and the final bookmark of a streaming list.
    pub(super) fn initial(&self) -> Vec<u8> {
        let put = |(name, object): (&String, &Object)| {
            self.encode_event(&HistoryEvent::Put(name.clone(), object.clone()))
        };
        let mut bytes: Vec<u8> = self.objects.iter().flat_map(put).collect();
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        let meta = json!({"resourceVersion": self.version.to_string(), "annotations": annotations});
        bytes.extend(self.encode("BOOKMARK", &json!({"metadata": meta})));
        bytes
    }

    fn list(&self, request: &ReceivedRequest) -> Reply {
        let from = request.parameter("continue").unwrap_or_default();
        let from: usize = from.split(' ').next().unwrap().parse().unwrap_or(0);
        let count = self.page.min(self.objects.len() - from);
        let page = self.objects.iter().skip(from).take(count);
        let items: Vec<Value> = page.map(|(name, object)| object_of(name, object)).collect();
        let end = from + count;
        let token = if end < self.objects.len() {
            // Contains characters that must be encoded.
            format!("{end} of/{}&", self.objects.len())
        } else {
            String::new()
        };
        let meta = json!({"resourceVersion": self.version.to_string(), "continue": token});
        if self.protobuf {
            let page = BodyPart::Data(protobuf::list(&meta, &items));
            return Reply::stream(200, vec![page]).header("content-type", protobuf::TYPE);
        }
        Reply::json(200, &json!({"metadata": meta, "items": items}))
    }

    fn reply(server: &Arc<Mutex<Self>>, request: &ReceivedRequest) -> Reply {
        let mut this = lock(server);
        if let Some(Some(scripted)) = this.script.pop_front() {
            return scripted;
        }
        if request.parameter("watch").is_none() {
            return this.list(request);
        }
        let mut bytes;
        let mut sent = this.version;
        if request.parameter("sendInitialEvents").is_some() {
            if let Err(status) = this.streaming_lists {
                return Reply::failure(status, "sendInitialEvents is forbidden");
            }
            bytes = this.initial();
        } else {
            let from: u64 = request.parameter("resourceVersion").unwrap().parse().unwrap();
            if from < this.compacted && this.expires_by_event {
                let object = json!({"kind": "Status", "code": 410, "reason": "Expired"});
                return this
                    .stream(vec![BodyPart::Data(this.encode("ERROR", &object)), BodyPart::Hang]);
            } else if from < this.compacted {
                return Reply::failure(410, "too old resource version");
            }
            bytes = this.events_after(from.saturating_sub(this.repeats));
            sent = sent.max(from);
        }
        if let Some(cut) = this.cuts.pop_front() {
            bytes.truncate(cut);
            return this.stream(vec![BodyPart::Data(bytes), BodyPart::Break]);
        }
        let (epoch, changed) = (this.epoch, Arc::clone(&this.changed));
        let server = Arc::clone(server);
        let more = futures::stream::unfold(sent, move |sent| {
            let (server, changed) = (Arc::clone(&server), Arc::clone(&changed));
            async move {
                loop {
                    let waiting = changed.notified();
                    tokio::pin!(waiting);
                    waiting.as_mut().enable();
                    {
                        let this = lock(&server);
                        if this.epoch != epoch {
                            return None;
                        }
                        let bytes = this.events_after(sent);
                        if !bytes.is_empty() {
                            return Some((BodyPart::Data(bytes), this.version));
                        }
                    }
                    waiting.await;
                }
            }
        });
        let reply = Reply::endless(200, vec![BodyPart::Data(bytes)], more);
        if this.protobuf { reply.header("content-type", protobuf::STREAM_TYPE) } else { reply }
    }

    fn stream(&self, parts: Vec<BodyPart>) -> Reply {
        let reply = Reply::stream(200, parts);
        if self.protobuf { reply.header("content-type", protobuf::STREAM_TYPE) } else { reply }
    }

    /// Encodes an event.
    fn encode(&self, event: &str, object: &Value) -> Vec<u8> {
        if self.protobuf { protobuf::frame(event, object) } else { line(event, object) }
    }

    fn encode_event(&self, event: &HistoryEvent) -> Vec<u8> {
        match event {
            HistoryEvent::Put(name, object) => self.encode("ADDED", &object_of(name, object)),
            HistoryEvent::Deleted(name, object) => self.encode("DELETED", &object_of(name, object)),
        }
    }
}

pub(super) fn line(event: &str, object: &Value) -> Vec<u8> {
    format!("{}\n", json!({"type": event, "object": object})).into_bytes()
}

pub(super) fn object_of(name: &str, (uid, version): &Object) -> Value {
    json!({"metadata": {"name": name, "uid": uid, "resourceVersion": version.to_string()}})
}

/// Receives the inputs of the engine.
pub(super) struct InputObserver {
    inputs: mpsc::Receiver<Input>,
    pub(super) names: std::collections::BTreeSet<String>,
    pub(super) log: Vec<String>,
    pub(super) synced: bool,
    pub(super) synced_times: usize,
}

impl InputObserver {
    fn drain(&mut self) {
        while let Ok(input) = self.inputs.try_recv() {
            match input {
                Input::Synced => {
                    self.synced = true;
                    self.synced_times += 1;
                }
                Input::Change(Change::Object(object)) => self.put(&object.name().name),
                Input::Change(Change::ObjectGone(ObjectName { name, .. })) => {
                    self.log.push(format!("-{name}"));
                    assert!(self.names.remove(&*name), "{name} was not known");
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn put(&mut self, name: &str) {
        self.log.push(format!("+{name}"));
        self.names.insert(name.to_owned());
    }
}

pub(super) struct ReflectorFixture {
    pub(super) server: Arc<Mutex<HistoryServer>>,
    pub(super) fake: FakeApiServer,
    pub(super) status: Arc<WatchStatus>,
    pub(super) metrics: Metrics,
    pub(super) observer: InputObserver,
    pub(super) task: JoinHandle<()>,
}

impl ReflectorFixture {
    pub(super) fn start(kind: &str, prepare: impl FnOnce(&mut HistoryServer)) -> Self {
        Self::start_as(kind, prepare, |reflector| reflector)
    }

    /// Starts a reflector that `make` changes first.
    pub(super) fn start_as(
        kind: &str,
        prepare: impl FnOnce(&mut HistoryServer),
        make: impl FnOnce(Reflector) -> Reflector,
    ) -> Self {
        let mut server = HistoryServer {
            objects: BTreeMap::new(),
            version: 0,
            history: Vec::new(),
            compacted: 0,
            streaming_lists: Ok(()),
            expires_by_event: false,
            page: 1000,
            script: VecDeque::new(),
            cuts: VecDeque::new(),
            repeats: 0,
            protobuf: false,
            changed: Arc::default(),
            epoch: 0,
        };
        prepare(&mut server);
        let server = Arc::new(Mutex::new(server));
        let replying = Arc::clone(&server);
        let fake = FakeApiServer::new(move |request| HistoryServer::reply(&replying, request));
        let kind = KINDS.iter().find(|known| known.name == kind).unwrap();
        let (sender, inputs) = mpsc::channel(100_000);
        let (status, metrics) = (Arc::new(WatchStatus::default()), Metrics::new("lease"));
        let reflector =
            Reflector::new(kind, fake.client(), sender, Arc::clone(&status), metrics.clone());
        let task = tokio::spawn(make(reflector).run());
        let observer = InputObserver {
            inputs,
            names: std::collections::BTreeSet::new(),
            log: Vec::new(),
            synced: false,
            synced_times: 0,
        };
        Self { server, fake, status, metrics, observer, task }
    }

    /// Waits.
    pub(super) async fn wait(&mut self, time: Duration) {
        sleep(time).await;
        self.observer.drain();
    }

    /// Waits long enough for two requests.
    pub(super) async fn settle(&mut self) {
        self.wait(Duration::from_millis(500)).await;
    }

    /// Waits long enough for a failure and a change.
    pub(super) async fn settle_after_failure(&mut self) {
        self.wait(Duration::from_secs(1)).await;
    }

    /// Asserts that the reflector knows exactly the objects that exist.
    pub(super) fn assert_in_sync(&self) {
        let existing: Vec<String> = lock(&self.server).objects.keys().cloned().collect();
        let known: Vec<String> = self.observer.names.iter().cloned().collect();
        assert_eq!(known, existing, "log: {:?}", self.observer.log);
    }
}
