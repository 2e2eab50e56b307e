/**
 * Google's own, unchanged libraries as clients of the emulator: @google-cloud/tpu over REST, and
 * google-api-python-client. The first run installs them into a cache folder of this clone, because nothing else needs
 * them. Without a package registry the tests are skipped.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import type { Emulator } from '../../src/emulator/contract.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import {
  type ApiVersion,
  type Kind,
  type Message,
  node as nodeMessage,
  queuedResource as queuedMessage,
} from '../../src/emulator/wire/messages.ts';
import { run } from '../support/program.ts';
import { root } from '../support/root.ts';

const zone = 'us-central1-a';
const parent = `projects/p/locations/${zone}`;
const cache = join(root, 'node_modules/.cache/google-clients');

/** Installs packages into a cache folder once. Undefined when that is not possible here. */
function installed(name: string, commands: readonly (readonly string[])[]): string | undefined {
  const folder = join(cache, name);
  if (existsSync(join(folder, '.complete'))) return folder;
  mkdirSync(folder, { recursive: true });
  for (const [program = '', ...args] of commands) {
    const ran = spawnSync(program, args, { cwd: folder, stdio: 'ignore', timeout: 300_000 });
    if (ran.status !== 0) return undefined;
  }
  writeFileSync(join(folder, '.complete'), '');
  return folder;
}

function skip(t: TestContext, name: string): void {
  t.skip(`NOT TESTED: the emulator with ${name} (it cannot be installed here)`);
}

/** The results of both programs, each through its own library: states of nodes and codes of errors. */
const expected = {
  created: ['READY', 4],
  listed: ['a', 'n1', 'z'],
  labels: { owner: 'ada', team: 'b' },
  stopped: 'STOPPED',
  queued: ['ACTIVE', 2],
  missing: 'not found',
  stockout: 8,
  types: true,
};

/** The first lines of both Node programs. */
const nodeHead = `
import { GoogleAuth, PassThroughClient } from 'google-auth-library';
import tpu from '@google-cloud/tpu';
const [port, parent, admin] = process.argv.slice(2);
const options = { fallback: true, protocol: 'http', apiEndpoint: '127.0.0.1', port: Number(port),
  auth: new GoogleAuth({ authClient: new PassThroughClient() }) };
const client = new tpu.v2.TpuClient(options);
const verb = (name, target) => fetch(admin + '/emulator/' + name, { method: 'POST', body: JSON.stringify({ target }) });
`;

const nodeProgram = `
const node = (type) => ({ acceleratorType: type, runtimeVersion: 'v2-alpha-tpuv5-lite', labels: { owner: 'ada' } });
const wait = async (call) => { const [operation] = await call; const [result] = await operation.promise(); return result; };
// What an operation ends with has its enums as numbers in this library; what is got has them as texts.
const get = async (id) => (await client.getNode({ name: parent + '/nodes/' + id }))[0];
const { networkEndpoints } = await wait(client.createNode({ parent, nodeId: 'n1', node: node('v5litepod-16') }));
const { state } = await get('n1');
await Promise.all(['a', 'z'].map((nodeId) => wait(client.createNode({ parent, nodeId, node: node('v5litepod-4') }))));
const listed = [];
for await (const each of client.listNodesAsync({ parent, pageSize: 2 })) listed.push(each.name.split('/').at(-1));
const name = parent + '/nodes/a';
const updated = await wait(client.updateNode({ node: { name, labels: { owner: 'ada', team: 'b' } }, updateMask: { paths: ['labels'] } }));
await wait(client.stopNode({ name }));
const stopped = await get('a');
await wait(client.startNode({ name }));
const spec = { parent, multisliceParams: { nodeCount: 2, nodeIdPrefix: 'ms' }, node: node('v5litepod-4') };
await wait(client.createQueuedResource({ parent, queuedResourceId: 'q', queuedResource: { spot: {}, tpu: { nodeSpec: [spec] } } }));
let queued;
do { [queued] = await client.getQueuedResource({ name: parent + '/queuedResources/q' }); } while (queued.state.state !== 'ACTIVE');
await wait(client.deleteQueuedResource({ name: parent + '/queuedResources/q', force: true }));
const missing = await client.getNode({ name: parent + '/nodes/nope' }).then(() => '', (error) => error.code === 5 && /was not found/.test(error.message) ? 'not found' : String(error));
await verb('stockout', '*');
const stockout = await wait(client.createNode({ parent, nodeId: 'x', node: node('v5litepod-4') })).then(() => 0, (error) => error.code);
await verb('clear', 'stockout');
const [types] = await client.listAcceleratorTypes({ parent });
for (const id of ['n1', 'a', 'z']) await wait(client.deleteNode({ name: parent + '/nodes/' + id }));
console.log(JSON.stringify({ created: [state, networkEndpoints.length], listed, labels: updated.labels,
  stopped: stopped.state, queued: [queued.state.state, queued.tpu.nodeSpec.length], missing, stockout,
  types: types.some((each) => each.type === 'v5litepod-8' && each.acceleratorConfigs[0].topology === '2x4') }));
`;

/**
 * Results about operations: a held and cancelled creation (done, cancel requested, error code); a completed reset; the
 * verbs of all operations on the two resources, and the length of a page of two; and the HTTP status of a deleted
 * operation, of one that never existed, and of its deletion.
 */
const expectedOfOperations = {
  held: [false, false],
  cancelled: [true, true, 1],
  ended: ['reset', true, 'ACTIVE'],
  listed: ['create', 'create', 'delete', 'reset'],
  page: 2,
  gone: [404, 404, 404],
};

/** Long-running operations in the Node library: promise, progress, cancel, delete, list. */
const nodeOperations = `
const node = { acceleratorType: 'v5litepod-4', runtimeVersion: 'v2-alpha-tpuv5-lite' };
const asked = { parent, queuedResourceId: 'lq', queuedResource: { tpu: { nodeSpec: [{ parent, nodeId: 'lq-node', node }] } } };
const [asking] = await client.createQueuedResource(asked);
const [made] = await asking.promise();
const name = parent + '/queuedResources/lq';
let queued;
do { [queued] = await client.getQueuedResource({ name }); } while (queued.state.state !== 'ACTIVE');
const [resetting] = await client.resetQueuedResource({ name });
await resetting.promise();
const reset = await client.checkResetQueuedResourceProgress(resetting.name);
const state = Object.keys(tpu.protos.google.cloud.tpu.v2.QueuedResourceState.State)[reset.result.state.state];
const ended = [reset.metadata.verb, reset.done, state];

await verb('hold', '*');
const [creating] = await client.createNode({ parent, nodeId: 'held', node });
const early = await client.checkCreateNodeProgress(creating.name);
await creating.cancel();
const [late] = await client.getOperation({ name: creating.name });
await verb('clear', 'hold');
const code = await creating.promise().then(() => 0, (error) => error.code);
const [deleting] = await client.deleteQueuedResource({ name, force: true });
await deleting.promise();

const listed = [];
const mine = [name, parent + '/nodes/held'];
const about = ({ metadata }) => tpu.protos.google.cloud.tpu.v2.OperationMetadata.decode(metadata.value);
for await (const each of client.listOperationsAsync({ name: parent, pageSize: 2 })) {
  const { target, verb } = about(each);
  if (mine.includes(target)) listed.push(verb);
}
const [page] = await client.operationsClient.listOperations({ name: parent, pageSize: 2 }, { autoPaginate: false });
const status = (call) => call.then(() => 200, (error) => error.code === 5 ? 404 : String(error));
await client.deleteOperation({ name: late.name });
const never = parent + '/operations/operation-0-0000000000000-00000000-00000000';
const gone = [await status(client.getOperation({ name: late.name })), await status(client.checkCreateNodeProgress(never)),
  await status(client.deleteOperation({ name: never }))];
console.log(JSON.stringify({ held: [early.done === true, early.metadata.cancelRequested],
  cancelled: [late.done, about(late).cancelRequested, code], ended, listed: listed.sort(), page: page.length, gone }));
`;

const pythonProgram = `
import json, sys, time, urllib.request
from google.auth.credentials import AnonymousCredentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
url, parent = sys.argv[1:]
service = build('tpu', 'v2', static_discovery=True, client_options={'api_endpoint': url}, credentials=AnonymousCredentials())
locations = service.projects().locations()
nodes, queue, operations = locations.nodes(), locations.queuedResources(), locations.operations()
def verb(name, target):
    urllib.request.urlopen(urllib.request.Request(url + '/emulator/' + name, json.dumps({'target': target}).encode(), method='POST')).read()
def wait(operation):
    while not operation.get('done'):
        time.sleep(0.05)
        operation = operations.get(name=operation['name']).execute()
    return operation
def node(kind):
    return {'acceleratorType': kind, 'runtimeVersion': 'v2-alpha-tpuv5-lite', 'labels': {'owner': 'ada'}}
made = wait(nodes.create(parent=parent, nodeId='n1', body=node('v5litepod-16')).execute())['response']
for name in ['a', 'z']:
    wait(nodes.create(parent=parent, nodeId=name, body=node('v5litepod-4')).execute())
listed, request = [], nodes.list(parent=parent, pageSize=2)
while request is not None:
    page = request.execute()
    listed += [each['name'].split('/')[-1] for each in page['nodes']]
    request = nodes.list_next(request, page)
name = parent + '/nodes/a'
updated = wait(nodes.patch(name=name, updateMask='labels', body={'labels': {'owner': 'ada', 'team': 'b'}}).execute())['response']
stopped = wait(nodes.stop(name=name, body={}).execute())['response']
wait(nodes.start(name=name, body={}).execute())
spec = {'parent': parent, 'multisliceParams': {'nodeCount': 2, 'nodeIdPrefix': 'ms'}, 'node': node('v5litepod-4')}
wait(queue.create(parent=parent, queuedResourceId='q', body={'spot': {}, 'tpu': {'nodeSpec': [spec]}}).execute())
while True:
    queued = queue.get(name=parent + '/queuedResources/q').execute()
    if queued['state']['state'] == 'ACTIVE':
        break
    time.sleep(0.05)
wait(queue.delete(name=parent + '/queuedResources/q', force=True).execute())
try:
    nodes.get(name=parent + '/nodes/nope').execute()
    missing = ''
except HttpError as error:
    missing = 'not found' if error.resp.status == 404 and 'was not found' in error.reason else str(error)
verb('stockout', '*')
stockout = wait(nodes.create(parent=parent, nodeId='x', body=node('v5litepod-4')).execute())['error']['code']
verb('clear', 'stockout')
types = locations.acceleratorTypes().list(parent=parent).execute()['acceleratorTypes']
for name in ['n1', 'a', 'z']:
    wait(nodes.delete(name=parent + '/nodes/' + name).execute())
print(json.dumps({'created': [made['state'], len(made['networkEndpoints'])], 'listed': listed, 'labels': updated['labels'],
  'stopped': stopped['state'], 'queued': [queued['state']['state'], len(queued['tpu']['nodeSpec'])], 'missing': missing,
  'stockout': stockout, 'types': any(t['type'] == 'v5litepod-8' and t['acceleratorConfigs'][0]['topology'] == '2x4' for t in types)}))
`;

const storageProgram = `
import json, sys
from google.auth.credentials import AnonymousCredentials
from google.api_core.exceptions import NotFound, PreconditionFailed
from google.cloud import storage
client = storage.Client(project='p', credentials=AnonymousCredentials())
bucket = client.create_bucket('things', location='us-central2')
for name in ['run/1', 'run/2', 'top']:
    bucket.blob(name).upload_from_string(name + ' bytes')
large = bucket.blob('large', chunk_size=256 * 1024)
large.upload_from_string(b'x' * 700000)
blobs = sorted(blob.name for blob in client.list_blobs('things'))
folded = client.list_blobs('things', delimiter='/')
names = [blob.name for blob in folded]
text = bucket.blob('run/2').download_as_text()
part = bucket.blob('run/2').download_as_bytes(start=1, end=3).decode()
size = len(bucket.get_blob('large').download_as_bytes())
try:
    bucket.blob('top').upload_from_string('again', if_generation_match=0)
    twice = 'written'
except PreconditionFailed:
    twice = 'refused'
bucket.copy_blob(bucket.blob('top'), bucket, 'copy')
bucket.blob('top').delete()
try:
    bucket.blob('top').download_as_bytes()
    gone = 'there'
except NotFound:
    gone = 'gone'
print(json.dumps({'blobs': blobs, 'names': names, 'prefixes': sorted(folded.prefixes), 'text': text, 'part': part, 'size': size,
  'twice': twice, 'gone': gone, 'location': client.get_bucket('things').location, 'left': sorted(b.name for b in bucket.list_blobs())}))
`;

describe("Google's libraries", () => {
  const folder = mkdtempSync(join(tmpdir(), 'emulator-libraries-'));
  let emulator: Emulator;

  before(async () => {
    emulator = await startEmulator({
      stateDir: join(folder, 'state'),
      speed: 400,
      seed: 1,
      env: {},
      isolation: 'none',
    });
  });

  after(async () => {
    await emulator.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const install = {
    node: () =>
      installed('node', [
        ['npm', 'install', '--prefix', '.', '--no-audit', '--no-fund', '--ignore-scripts', '@google-cloud/tpu@3.8.1'],
      ]),
    python: () =>
      installed('python', [
        ['python3', '-m', 'venv', '.'],
        ['./bin/pip', 'install', '--quiet', 'google-api-python-client==2.201.0'],
      ]),
  };
  const things = 'creates, lists, changes and deletes nodes and queued resources';
  const operations = 'waits for operations, reads their progress, cancels, lists and deletes them';
  for (const [language, does, text, seen] of [
    ['node', things, nodeHead + nodeProgram, expected],
    ['node', operations, nodeHead + nodeOperations, expectedOfOperations],
    ['python', things, pythonProgram, expected],
  ] as const) {
    const library = language === 'node' ? '@google-cloud/tpu' : 'google-api-python-client';
    test(`${library} ${does}`, async (t) => {
      const client = install[language]();
      if (client === undefined) return skip(t, library);
      const program = join(client, language === 'node' ? 'program.mjs' : 'program.py');
      writeFileSync(program, text);
      const { port } = new URL(emulator.url);
      const argv =
        language === 'node'
          ? [process.execPath, program, port, parent, emulator.url]
          : [join(client, 'bin/python'), program, emulator.url, parent];
      const ran = await run(argv, { env: { ...process.env, HOME: folder } });
      assert.equal(ran.code, 0, ran.stderr);
      assert.deepEqual(JSON.parse(ran.stdout), seen);
    });
  }

  test('google-cloud-storage creates, lists, reads and deletes objects', async (t) => {
    const client = installed('python-storage', [
      ['python3', '-m', 'venv', '.'],
      ['./bin/pip', 'install', '--quiet', 'google-cloud-storage==3.4.0'],
    ]);
    if (client === undefined) return skip(t, 'google-cloud-storage');
    const program = join(client, 'program.py');
    writeFileSync(program, storageProgram);
    const env = { ...process.env, HOME: folder, STORAGE_EMULATOR_HOST: emulator.url };
    const ran = await run([join(client, 'bin/python'), program], { env });
    assert.equal(ran.code, 0, ran.stderr);
    assert.deepEqual(JSON.parse(ran.stdout), {
      blobs: ['large', 'run/1', 'run/2', 'top'],
      names: ['large', 'top'],
      prefixes: ['run/'],
      text: 'run/2 bytes',
      part: 'un/',
      size: 700_000,
      twice: 'refused',
      gone: 'gone',
      location: 'US-CENTRAL2',
      left: ['copy', 'large', 'run/1', 'run/2'],
    });
  });

  // The Python library contains Google's own description of the API, which our tables must match.
  test("the tables have every field and enum value of Google's description, and every method is implemented", async (t) => {
    const client = install.python();
    if (client === undefined) return skip(t, 'google-api-python-client');
    for (const version of ['v2', 'v2alpha1'] as const) {
      const description = await describeApi(client, version);
      assert.deepEqual(missingFrom(description, 'Node', nodeMessage, version), []);
      assert.deepEqual(missingFrom(description, 'QueuedResource', queuedMessage, version), []);
      for (const { httpMethod, flatPath } of methodsOf(description)) {
        const path = flatPath
          .replace('{projectsId}', 'p')
          .replace('{locationsId}', zone)
          .replace(/\{\w+Id\}/, 'nothing-of-that-name');
        const reply = await fetch(`${emulator.url}/${path}`, { method: httpMethod });
        // An unknown method returns an HTML page; a known one returns JSON, also for an error.
        assert.match(
          reply.headers.get('content-type') ?? '',
          /application\/json/,
          `${version} ${httpMethod} ${flatPath}`,
        );
      }
    }
  });
});

interface Described {
  readonly schemas: Readonly<Record<string, { readonly properties?: Readonly<Record<string, Property>> }>>;
  readonly resources: Readonly<Record<string, Resource>>;
}

interface Property {
  readonly $ref?: string;
  readonly enum?: readonly string[];
  readonly items?: Property;
}

interface Resource {
  readonly methods?: Readonly<Record<string, { readonly httpMethod: string; readonly flatPath: string }>>;
  readonly resources?: Readonly<Record<string, Resource>>;
}

async function describeApi(client: string, version: ApiVersion): Promise<Described> {
  const found = await run(
    [join(client, 'bin/python'), '-c', 'import googleapiclient; print(googleapiclient.__path__[0])'],
    {},
  );
  const file = join(found.stdout.trim(), 'discovery_cache/documents', `tpu.${version}.json`);
  return JSON.parse(readFileSync(file, 'utf8')) as Described;
}

function methodsOf({ resources = {} }: Resource): { readonly httpMethod: string; readonly flatPath: string }[] {
  return Object.values(resources).flatMap((resource) => [
    ...Object.values(resource.methods ?? {}),
    ...methodsOf(resource),
  ]);
}

/** The fields that the description has and the table lacks, as paths. */
function missingFrom(
  description: Described,
  schema: string,
  message: Message,
  version: ApiVersion,
  path = schema,
): string[] {
  return Object.entries(description.schemas[schema]?.properties ?? {}).flatMap(([name, property]) => {
    const here = `${path}.${name}`;
    const field = message.fields[name];
    if (field === undefined || (field.onlyIn !== undefined && field.onlyIn !== version)) return [here];
    const { $ref, enum: texts = [] } = property.items ?? property;
    const kind = single(field.kind);
    if (typeof kind === 'object' && 'enum' in kind) {
      return texts.filter((text) => !Object.hasOwn(kind.enum.numbers, text)).map((text) => `${here}: ${text}`);
    }
    const isMessage = typeof kind === 'object' && 'message' in kind && $ref !== undefined;
    return isMessage ? missingFrom(description, $ref, kind.message(), version, here) : [];
  });
}

function single(kind: Kind): Kind {
  return typeof kind === 'object' && 'list' in kind ? kind.list : kind;
}
