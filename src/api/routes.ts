// Routes: how each operation of Client travels over HTTP. The server, the HTTP client and the OpenAPI document read this
// table. The types of arguments and answers are those of Client; openapi.json has their schemas.

import type { Client } from '../app/client.ts';
import type { ClusterClient } from '../app/cluster/cluster-client.ts';
import type { LabClient } from '../lab/lab-client.ts';

/** The operations of the API: everything that Client offers, except `close`, which frees the connections of a client. */
export type Operation = Exclude<keyof Client, 'close'>;

/**
 * The part of a request that carries an argument, and the name of the argument in Client. `query`: one parameter; lists
 * repeat it, and null leaves it out. `fields`: an object whose fields are parameters. `body`: the JSON body. `member`: a
 * member of the JSON body. `bytes`: the body is its bytes. `blobs`: the body is blobs (wire.ts).
 */
type Argument = `${'path' | 'query' | 'fields' | 'body' | 'member' | 'bytes' | 'blobs'} ${string}`;

/**
 * `json`: a value; no content for undefined. `rows`: a page of a list as `{ rows, next }`; the arguments have a `limit` and a
 * `cursor`. `bytes`: the body is the bytes. `log`: as well, with the rest of `LogPart`
 * in headers. `chunks`: bytes as they are produced. `events`: server-sent events, one for each value.
 */
export type AnswerKind = 'json' | 'rows' | 'bytes' | 'log' | 'chunks' | 'events';

/** The media type of each kind. */
export const answerTypes: Readonly<Record<AnswerKind, string>> = {
  json: 'application/json',
  rows: 'application/json',
  bytes: 'application/octet-stream',
  log: 'application/octet-stream',
  chunks: 'application/octet-stream',
  events: 'text/event-stream',
};

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `{name}` is an argument. */
  readonly path: string;
  readonly answer: AnswerKind;
  /** True for a change: a terminal first prints the server, and the audit log records failures. */
  readonly changes: boolean;
  /** In the order of the parameters of the method. */
  readonly arguments: readonly (readonly [carrier: string, name: string])[];
}

/** Each target except a GET says whether the operation changes something. */
type Target = `GET /v1/${string}` | `${'read' | 'change'} ${Exclude<Route['method'], 'GET'>} /v1/${string}`;

const answering =
  (answer: AnswerKind) =>
  (target: Target, ...carriers: readonly Argument[]): Route => {
    const [path, method, effect] = target.split(' ').toReversed() as [string, Route['method'], string?];
    return {
      method,
      path,
      answer,
      changes: effect === 'change',
      arguments: carriers.map((carrier) => carrier.split(' ') as [string, string]),
    };
  };
const json = answering('json');
const rows = answering('rows');
const bytes = answering('bytes');
const events = answering('events');

/** A method of Client without a row does not compile. */
export const routes: { readonly [Method in Operation]: Route } = {
  whoAmI: json('GET /v1/user'),
  installationId: json('GET /v1/installation'),
  isControllerRunning: json('GET /v1/controller'),
  wake: json('read POST /v1/controller/wake'),
  changesSince: events('GET /v1/changes', 'query cursor', 'query jobs'),

  checkLabCommand: json('read POST /v1/lab/commands/{command}/check', 'path command'),

  list: json('GET /v1/jobs', 'fields query'),
  create: json('change POST /v1/jobs', 'body request'),
  readManifest: json('read POST /v1/manifests', 'body request'),
  plan: json('read POST /v1/plans', 'member spec', 'member workdir'),
  activity: json('GET /v1/activity'),
  listCleanable: rows('GET /v1/cleanable-jobs', 'fields page'),
  resolveName: json('GET /v1/names/{name}', 'path name', 'query purpose'),
  show: json('GET /v1/jobs/{ref}', 'path ref', 'fields options'),
  actions: json('GET /v1/jobs/{ref}/actions', 'path ref'),
  why: json('GET /v1/jobs/{ref}/why', 'path ref'),
  events: rows('GET /v1/jobs/{ref}/events', 'path ref', 'query after', 'query limit', 'query cursor'),
  passes: json('GET /v1/jobs/{ref}/passes', 'path ref', 'fields query'),
  manifest: json('GET /v1/jobs/{ref}/manifest', 'path ref'),
  diffSide: json('GET /v1/jobs/{ref}/diff-side', 'path ref', 'query attempt'),
  workdirChanges: json('GET /v1/jobs/{ref}/workdirs/{copy}/changes', 'path ref', 'path copy'),
  readWorkdirFile: bytes('GET /v1/jobs/{ref}/workdirs/{copy}/file', 'path ref', 'path copy', 'query path'),
  readStepFile: bytes('GET /v1/jobs/{ref}/step-file', 'path ref', 'query to'),
  sendCommand: json('change POST /v1/jobs/{ref}/commands/{verb}', 'path ref', 'path verb', 'body options'),
  clean: json('change POST /v1/jobs/{ref}/clean', 'path ref', 'body options'),
  replaceJobSecret: json('change PUT /v1/jobs/{ref}/secrets/{name}', 'path ref', 'path name', 'bytes value'),
  logs: rows('GET /v1/jobs/{ref}/logs', 'path ref', 'fields query'),
  readLog: answering('log')('GET /v1/jobs/{ref}/logs/{id}', 'path ref', 'path id', 'query from', 'query maxBytes'),
  readLogs: events('read POST /v1/jobs/{ref}/log-parts', 'path ref', 'member parts'),
  searchLogs: events('read POST /v1/jobs/{ref}/log-searches', 'path ref', 'body search'),
  metrics: events('GET /v1/jobs/{ref}/metrics', 'path ref', 'fields query'),
  metricPoints: events('GET /v1/jobs/{ref}/metric-points', 'path ref', 'fields query'),
  workerTicket: json('change POST /v1/jobs/{ref}/ticket', 'path ref', 'body options'),
  workerFigures: json('GET /v1/jobs/{ref}/figures', 'path ref', 'fields target'),
  runStep: events('change POST /v1/jobs/{ref}/steps/{step}/runs', 'path ref', 'path step', 'body options'),

  putBlobs: json('change POST /v1/blobs', 'blobs blobs'),
  hasBlobs: json('read POST /v1/blobs/search', 'member digests', 'member sizes'),
  secrets: json('GET /v1/secrets'),
  setSecret: json('change PUT /v1/secrets/{name}', 'path name', 'bytes value'),
  deleteSecret: json('change DELETE /v1/secrets/{name}', 'path name'),

  usage: rows('GET /v1/usage', 'fields query'),
  cost: json('GET /v1/cost', 'fields request'),
  billing: json('GET /v1/billing', 'fields request'),

  recipients: json('GET /v1/recipients'),
  recipientsInUse: json('GET /v1/recipients-in-use'),
  openSecrets: json('GET /v1/open-secrets'),
  testRecipient: json('change POST /v1/recipients/{recipient}/test', 'path recipient'),
  dropEvents: json('change DELETE /v1/recipients/{recipient}/events', 'path recipient'),
  heldEvents: json('GET /v1/held-events'),
  messages: rows('GET /v1/messages', 'query limit', 'query cursor'),

  users: json('GET /v1/users'),
  addUser: json('change POST /v1/users', 'body user'),
  changeUser: json('change PATCH /v1/users/{name}', 'path name', 'body change'),
  tokens: rows('GET /v1/tokens', 'fields page'),
  createToken: json('change POST /v1/tokens', 'body request'),
  revokeToken: json('change DELETE /v1/tokens/{ref}', 'path ref', 'query user'),
  audit: rows('GET /v1/audit', 'fields query'),

  hosts: json('GET /v1/hosts'),
  hostQueues: json('GET /v1/host-queues'),
  queue: json('GET /v1/queue'),
  ownPrices: json('GET /v1/prices'),
  settings: json('GET /v1/settings'),
  zones: json('GET /v1/zones', 'fields query'),
  tpus: json('GET /v1/tpus', 'fields query'),
  quota: json('GET /v1/quota', 'fields query'),
  knownQuota: json('GET /v1/known-quota', 'query projects'),
  quotaWarnings: json('read POST /v1/quota-warnings', 'body capacity'),
  forgetProject: json('change POST /v1/projects/{project}/forget', 'path project', 'member confirmed'),
  checkLogin: json('read POST /v1/projects/{project}/check-login', 'path project'),
  bucketStatuses: json('read POST /v1/bucket-statuses', 'member project', 'member buckets', 'member pendingSpec'),
  storage: events('GET /v1/storage', 'fields query'),
  checkpoints: events('GET /v1/checkpoints'),
  orphans: json('GET /v1/orphans'),
  observeOrphans: json('read POST /v1/orphans/observe', 'member orphans'),
  releaseOrphan: json('change POST /v1/orphans/release', 'body orphan'),
  forgetOrphan: json('change POST /v1/orphans/forget', 'body orphan'),
  images: json('GET /v1/images', 'fields query'),
  image: json('GET /v1/images/{name}', 'path name', 'fields query'),

  archivedJobs: rows('GET /v1/archive', 'fields query'),
  archivedJob: json('GET /v1/archive/{uid}', 'path uid'),
  archivedEvents: rows('GET /v1/archive/{uid}/events', 'path uid', 'fields page'),
  archivedLogs: json('GET /v1/archive/{uid}/logs', 'path uid'),
  lastArchivedLines: json('GET /v1/archive/{uid}/last-lines', 'path uid', 'query pods'),
  readArchivedLog: answering('chunks')('GET /v1/archive/{uid}/log', 'path uid', 'fields log', 'fields query'),
  recordClusterDeletion: json('change POST /v1/archive/{uid}/deletion', 'path uid'),
  hideArchivedJob: json('change POST /v1/archive/{uid}/hide', 'path uid', 'body options'),
  removeArchivedJob: json('change DELETE /v1/archive/{uid}', 'path uid', 'fields options'),
};

/** The operations of a lab. The OpenAPI document names them `lab.users` and so on. */
const labRoutes: { readonly [Method in keyof LabClient]: Route } = {
  site: json('GET /v1/lab'),
  users: json('GET /v1/lab/users'),
  addUser: json('change POST /v1/lab/users', 'body user'),
  changeUser: json('change PATCH /v1/lab/users/{name}', 'path name', 'body change'),
  removeUser: json('change DELETE /v1/lab/users/{name}', 'path name'),
  directory: json('GET /v1/lab/users/{user}/directories/{number}', 'path user', 'path number'),
  checkRows: json('GET /v1/lab/users/{user}/attempts', 'path user'),
  news: rows('GET /v1/lab/users/{user}/news', 'path user', 'query after', 'fields page'),
  checkFolder: json('read POST /v1/lab/folders/check', 'member path'),

  tpus: json('GET /v1/lab/tpus'),
  tpuAliases: json('GET /v1/lab/tpu-aliases'),
  changeTpu: json('change PATCH /v1/lab/tpus/{name}', 'path name', 'member change', 'member alias'),
  removeTpu: json('change DELETE /v1/lab/tpus/{name}', 'path name'),
  setTpuAlias: json('change PUT /v1/lab/tpu-aliases/{alias}', 'path alias', 'member name'),
  describeTpu: json('GET /v1/lab/tpus/{name}/state', 'path name'),
  holders: json('GET /v1/lab/tpus/{name}/holders', 'path name'),
  runOnWorkers: events('change POST /v1/lab/tpus/{name}/scripts', 'path name', 'body script'),
  endPrograms: json('change POST /v1/lab/tpus/{name}/ends', 'path name', 'body programs'),

  jobs: rows('GET /v1/lab/jobs', 'query user', 'fields page'),
  tagJob: json('change PUT /v1/lab/jobs/{job}/tag', 'path job', 'member tag'),
  windows: rows('read POST /v1/lab/windows/search', 'body query', 'fields page'),
  openWindow: json('change PUT /v1/lab/jobs/{job}/windows/{attempt}', 'path job', 'path attempt'),
  clearWindows: json('change POST /v1/lab/windows/clear', 'member windows'),
  tmuxWindows: json('GET /v1/lab/sessions/{session}/windows', 'path session'),
  closeTmuxWindow: json('change DELETE /v1/lab/sessions/{session}/windows/{window}', 'path session', 'path window'),
  checkNow: json('read POST /v1/lab/checks', 'member jobs'),

  usage: json('GET /v1/lab/usage'),
  bookings: json('GET /v1/lab/bookings'),
  changeBooking: json('change PUT /v1/lab/bookings/{tpu}', 'path tpu', 'body command'),
  observeBooking: json('change PUT /v1/lab/bookings/{tpu}/existence', 'path tpu', 'member exists'),
  deliverBookings: json('read POST /v1/lab/bookings/deliveries'),
};

const inNamespace = 'v1/clusters/{context}/namespaces/{namespace}';
const at = ['path context', 'path namespace'] as const;

/** The clusters of the server, whose operations the document calls `cluster.jobs` and so on. */
export const clusterRoutes: { readonly [Method in keyof ClusterClient]: Route } = {
  site: json('GET /v1/clusters'),
  settings: json('GET /v1/cluster-settings'),
  context: json('GET /v1/cluster-context', 'fields choice'),
  jobs: events(`GET /${inNamespace}/jobs`, ...at, 'fields query'),
  job: json(`GET /${inNamespace}/jobs/{name}`, ...at, 'path name'),
  rawJob: json(`GET /${inNamespace}/jobs/{name}/object`, ...at, 'path name'),
  pods: events(`GET /${inNamespace}/pods`, ...at, 'fields query'),
  podUsage: json(`GET /${inNamespace}/pod-usage`, ...at),
  unscheduledPods: events(`GET /${inNamespace}/unscheduled-pods`, ...at, 'fields query'),
  nodes: json(`GET /${inNamespace}/nodes`, ...at),
  priorityClasses: json(`GET /${inNamespace}/priority-classes`, ...at),
  queuePriorityClasses: json(`GET /${inNamespace}/queue-priority-classes`, ...at),
  events: json(`read POST /${inNamespace}/events/search`, ...at, 'member names'),
  quotas: json(`GET /${inNamespace}/quotas`, ...at),
  configMap: json(`GET /${inNamespace}/config-maps/{name}`, ...at, 'path name'),
  watchJobs: events(`GET /${inNamespace}/job-changes`, ...at, 'fields query'),
  logs: answering('chunks')(
    `read POST /${inNamespace}/pods/{pod}/containers/{container}/log`,
    ...at,
    'path pod',
    'path container',
    'body query',
  ),
  submit: json(`change POST /${inNamespace}/jobs`, ...at, 'body submission'),
  perform: events(
    `change POST /${inNamespace}/jobs/{name}/commands/{command}`,
    ...at,
    'path name',
    'path command',
    'member uid',
    'member options',
  ),
};

function withPrefix(prefix: string, table: Readonly<Record<string, Route>>): Readonly<Record<string, Route>> {
  return Object.fromEntries(Object.entries(table).map(([method, route]) => [`${prefix}.${method}`, route]));
}

export type ApiOperation = Operation | `lab.${keyof LabClient}` | `cluster.${keyof ClusterClient}`;

/** The position of the argument with an idempotency key: a repeated request has no further effect. */
export const keyedArguments: Partial<Readonly<Record<ApiOperation, number>>> = { create: 0, 'cluster.submit': 2 };

/** All tables by the names of the document. */
export const apiRoutes = Object.entries({
  ...routes,
  ...withPrefix('lab', labRoutes),
  ...withPrefix('cluster', clusterRoutes),
}) as readonly (readonly [ApiOperation, Route])[];

/** The operations of a server as methods. */
export interface ApiClient extends Pick<Client, Operation> {
  readonly lab: LabClient;
  readonly cluster: ClusterClient;
}

/** Calls `methodOf` once for each operation. Its method has the parameters and the answer that the table has for it. */
export function createApiClient(
  methodOf: (operation: ApiOperation, route: Route) => (...values: readonly unknown[]) => unknown,
): ApiClient {
  const methods = (prefix: string, table: Readonly<Record<string, Route>>) =>
    Object.fromEntries(
      Object.entries(table).map(([name, route]) => [name, methodOf(`${prefix}${name}` as ApiOperation, route)]),
    );
  return {
    ...methods('', routes),
    lab: methods('lab.', labRoutes),
    cluster: methods('cluster.', clusterRoutes),
  } as unknown as ApiClient;
}
