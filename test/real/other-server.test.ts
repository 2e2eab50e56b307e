/**
 * jobman works with any server that implements Google's API: the settings name it, and jobman uses nothing beyond that
 * API. Jobs are requested, observed, run, preempted, released and listed, and orphans collected, against the emulator
 * behind a proxy that is stricter than Google.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { runAdminVerb } from '../../src/emulator/admin.ts';
import type { Emulator } from '../../src/emulator/contract.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { eventually } from '../support/eventually.ts';
import { jobman } from '../support/jobman.ts';
import { openWorld, type World } from '../support/world.ts';

const zone = 'europe-west4-b';
const parent = `projects/a-lab-of-ours/locations/${zone}`;

type Item = Readonly<Record<string, unknown>>;

/** The first attempt runs until it is preempted; the next one ends. */
const manifest = (name: string, mode: string): string => `job:
  name: ${name}
tpu:
  project: a-lab-of-ours
  allocation_mode: ${mode}
  accelerator: v5p-8
  zone: ${zone}
  pricing: spot
recovery: pre
command:
  run: |
    echo "attempt $JOBMAN_ATTEMPT of ${name}"
    test "$JOBMAN_ATTEMPT" != 1 || sleep 1000
`;

/** The time for which a new resource is hidden, in milliseconds. */
const hiddenFor = 700;
const isHidden = ({ createTime }: Item): boolean => Date.now() - Date.parse(String(createTime)) < hiddenFor;

interface OtherServer {
  readonly url: string;
  /** All requests, as `GET nodes`, without the parent. */
  readonly asked: string[];
  /** Requests that no documented client sends, with the reason. */
  readonly strange: string[];
}

/** Lists have pages of two, newest first, and a new resource is hidden at first. */
async function openOtherServer(world: World, emulator: Emulator): Promise<OtherServer> {
  const asked: string[] = [];
  const strange: string[] = [];

  async function answer({ method = '', url = '', headers }: IncomingMessage, body: string) {
    const address = new URL(url, emulator.url);
    asked.push(`${method} ${decodeURIComponent(address.pathname).replace(/^.*\/locations\/[^/]+\//, '')}`);
    if (headers.authorization !== undefined) strange.push('credentials were sent to a server on loopback');
    if (body !== '' && headers['content-type'] !== 'application/json') strange.push('a body that is not JSON');
    const from = Number(address.searchParams.get('pageToken') ?? 0);
    address.searchParams.delete('pageToken');
    const reply = await fetch(address, { method, ...(body === '' ? {} : { body }) });
    const text = await reply.text();
    if (/Unknown name|<title>Error 404/.test(text)) strange.push(`${method} ${url}: ${text}`);
    if (method !== 'GET' || !reply.ok) return { status: reply.status, body: text };
    const found = JSON.parse(text) as Item;
    if (isHidden(found)) return { status: 404, body: JSON.stringify({ error: { code: 404, status: 'NOT_FOUND' } }) };
    const lists = Object.entries(found).filter((entry): entry is [string, Item[]] => Array.isArray(entry[1]));
    if (found['name'] !== undefined || lists.length === 0) return { status: 200, body: text };
    const pages = lists.map(([field, items]) => {
      const all = items.filter((item) => !isHidden(item)).toReversed();
      const next = from + 2 < all.length ? { nextPageToken: String(from + 2) } : {};
      return { [field]: all.slice(from, from + 2), ...next };
    });
    return { status: 200, body: JSON.stringify(Object.assign({}, ...pages)) };
  }

  const http = createServer((request, response) => {
    void text(request)
      .then((body) => answer(request, body))
      .then(({ status, body }) => {
        response.writeHead(status, { 'content-type': 'application/json; charset=UTF-8' }).end(body);
      });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  world.atEnd(async () => {
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  });
  return { url: `http://127.0.0.1:${String((http.address() as AddressInfo).port)}`, asked, strange };
}

test('jobman works with any server of the API, without login, with any project and zone', async (t) => {
  const world = openWorld(t, { patienceMs: 10_000 });
  const emulator = await startEmulator({
    stateDir: join(world.folder, 'cloud'),
    env: world.env,
    isolation: 'none',
    speed: 40,
    seed: 7,
  });
  world.atEnd(() => emulator.close());
  const server = await openOtherServer(world, emulator);
  const api = async (method: string, path: string, given?: object): Promise<Item> => {
    const reply = await fetch(`${emulator.url}/v2/${parent}/${path}`, { method, body: JSON.stringify(given) });
    return (await reply.json()) as Item;
  };
  const put = (id: string, more: object = {}) =>
    api('POST', `nodes?nodeId=${id}`, { acceleratorType: 'v5p-8', runtimeVersion: 'v2-alpha-tpuv5', ...more });
  const ids = async (collection: 'nodes' | 'queuedResources'): Promise<readonly string[]> => {
    const items = ((await api('GET', collection))[collection] ?? []) as readonly { readonly name: string }[];
    return items.map(({ name }) => name.slice(name.lastIndexOf('/') + 1));
  };
  const env = { JOBMAN_TPU_ENDPOINT: server.url, JOBMAN_TPU_SSH_PORT: String(emulator.sshPort) };
  const runOk = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await jobman(world, args, { env });
    assert.equal(code, 0, [args.join(' '), stdout, stderr, ...server.strange].join('\n'));
    return stdout;
  };
  world.atEnd(() => jobman(world, ['controller', 'stop'], { env }).then(() => undefined));
  // Resources of other users fill more than a page.
  const others = ['ada-dev', 'grace-dev', 'm-1', 'm-2', 'zed'];
  for (const id of others) await put(id);

  let labels: unknown;
  for (const [index, mode] of ['tpu-vm', 'queued-resources'].entries()) {
    const job = String(index + 1);
    const name = mode === 'tpu-vm' ? 'direct' : 'queued';
    const id = (allocation: number): string => `${name}-00000${job}-${String(allocation)}`;
    writeFileSync(join(world.folder, `${name}.yaml`), manifest(name, mode));
    await runOk('create', `${name}.yaml`);
    const isThere = async (text: string): Promise<boolean> => (await runOk('logs', job)).includes(text);
    const why = async (): Promise<string> => `${await runOk('why', job)}\n${server.strange.join('\n')}`;
    const within = { withinMs: 90_000, everyMs: 500 };
    assert.ok(await eventually(() => isThere(`attempt 1 of ${name}`), within), await why());
    ({ labels } = await api('GET', `nodes/${id(1)}`));
    await runAdminVerb(emulator.url, 'preempt', id(1));
    assert.ok(await eventually(() => isThere(`attempt 2 of ${name}`), within), await why());
    await runOk('wait', job);
    const isGone = async (): Promise<boolean> =>
      !(await ids('nodes')).some((each) => each.startsWith(name)) && (await ids('queuedResources')).length === 0;
    assert.ok(await eventually(isGone, within), await why());
  }

  const tpus = ['tpus', '--project', 'a-lab-of-ours', '--zone', zone];
  const listed = await runOk(...tpus, '--json');
  assert.equal(listed.trim().split('\n').length, others.length);
  await put('orphan', { labels: { ...(labels as object), 'jobman-job': '000077' } });
  const shows = async (): Promise<boolean> => (await runOk(...tpus)).includes('orphan');
  assert.ok(await eventually(shows, { withinMs: 30_000 }), 'a list hides new resources, and not forever');
  assert.match(await runOk('gc', '--yes'), /nodes\/orphan is deleted/);
  assert.deepEqual(await ids('nodes'), others, 'resources of others are left alone');
  assert.match(await runOk('list'), /queued .*succeeded[^]*direct .*succeeded/);
  assert.deepEqual(server.strange, [], 'no request is outside the API');
  assert.ok(server.asked.includes('GET queuedResources') && server.asked.includes('DELETE nodes/orphan'));
  assert.match(await runOk('history', '2'), /preempted, the cloud took it \(SUSPEND/);
});
