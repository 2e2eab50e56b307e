// Two servers on one database, which share logs and contents in a bucket or in a folder. Whichever controls the jobs is killed, stopped or cut off
// from the database at random instants. The other one takes over within ten seconds; nothing is lost and nothing happens
// twice. JOBMAN_KILLS is the number of faults, JOBMAN_KILLS_SEED their seed.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createChance } from '../../sim/chance.ts';
import { findFaketime } from '../../tools/chaos/clock.ts';
import { schemaVersion } from '../../src/store/database.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/ports.ts';
import { openJobWorld, type JobWorld } from '../support/jobs.ts';
import { openPostgresProxy, remoteEnv, serverOf, type ServerProcess } from '../support/postgres-servers.ts';
import { requirePostgres } from '../support/postgres.ts';
import { requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';

const faults = Number(process.env['JOBMAN_KILLS'] ?? 12);
const seed = Number(process.env['JOBMAN_KILLS_SEED'] ?? 1);
const maxTakeoverMs = 10_000;

const kinds = ['kill', 'stop', 'cut'] as const;

/** Two servers that do not run yet, a token for both, and a first job, which has finished. */
async function setUp(t: TestContext, data: 'bucket' | 'folder', envOfOther: Readonly<Record<string, string>> = {}) {
  const postgres = await requirePostgres(t);
  if (postgres === undefined) return undefined;
  const name = await postgres.createDatabase();
  const url = postgres.urlOf(name);
  const target = join(new URL(url).searchParams.get('host') ?? '', '.s.PGSQL.5432');
  const world = openJobWorld(t, { env: { JOBMAN_DATABASE: url } });
  const lines = 40;
  mkdirSync(world.bucketPath('jobman'), { recursive: true });
  const settings = {
    tpu: { project: 'emulator' },
    server: { data: data === 'bucket' ? 'gs://shared/jobman' : join(world.folder, 'data') },
  };
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify(settings));
  // Its lock shows another program of the same job, which the kernel knows.
  const program = `
    mkdir -p ~/bucket/alive; exec 9>>~/bucket/alive/$JOBMAN_JOB_ID
    flock -n 9 || echo "$JOBMAN_JOB_ID" >>~/bucket/collisions
    echo "$JOBMAN_JOB_ID $JOBMAN_ATTEMPT" >>~/bucket/starts
    for i in $(seq ${lines}); do echo "line $i"; sleep 0.2; done`;
  const manifest = world.tpuManifest(program, {
    name: 'steady',
    tpu: { accelerator: 'v4-8' },
    command: { run: program },
    recovery: 'loop: failures',
  });
  // The first job creates the key, the host keys and the folders.
  const first = await world.create(manifest);
  await world.waitForFinish(first);
  const token = (await world.output('token', 'create')).trim();
  await world.runOk(['controller', 'stop']);
  const other = join(world.folder, 'other');
  mkdirSync(other, { mode: 0o700 });
  // The cloud is not a part of the server.
  symlinkSync(join(world.home, 'emulator'), join(other, 'emulator'));
  cpSync(join(world.home, 'settings.json'), join(other, 'settings.json'));
  cpSync(join(world.home, 'ssh'), join(other, 'ssh'), { recursive: true, filter: (path) => !path.endsWith('.sock') });
  const servers = await Promise.all(
    [world.home, other].map(async (home, index) =>
      serverOf(world, {
        name: `server ${index + 1}`,
        home,
        port: await freePort(),
        database: name,
        proxy: await openPostgresProxy(world, `socket-${index}`, target),
        env: index === 0 ? {} : envOfOther,
      }),
    ),
  );
  return { postgres, name, world, servers, token, manifest, first, lines };
}

test(`two servers on one database run jobs through ${faults} kills, stops and cuts`, async (t) => {
  const set = await setUp(t, 'bucket');
  if (set === undefined) return;
  const { postgres, name, world, servers, token, manifest, first, lines } = set;
  for (const server of servers) await server.start();
  const chance = createChance(seed);
  const lease = async () => {
    const [row] = await postgres.query('select holder, epoch from lease', name);
    return { holder: '', epoch: 0, ...(row as { readonly holder: string | null; readonly epoch: number } | undefined) };
  };
  const leader = async () => {
    const { holder } = await lease();
    return servers.find(({ child }) => holder?.startsWith(`${child?.pid}-`));
  };
  const created: string[] = [first];
  const takeovers: number[] = [];
  // The emulator's own count: a command without an answer may have preempted a TPU.
  const preempted = () => readFileSync(join(world.home, 'emulator.log'), 'utf8').match(/ is PREEMPTED$/gm)?.length ?? 0;
  const remote = (server: ServerProcess) => remoteEnv(server, token);
  async function create(server: ServerProcess): Promise<void> {
    const { code, stdout, stderr } = await world.jobman(['create', manifest, '--quiet', '--yes'], {
      env: remote(server),
    });
    assert.equal(code, 0, stderr);
    created.push(stdout.trim());
  }

  for (let count = 0; count < faults; count += 1) {
    const leading = (await eventually(leader, { withinMs: maxTakeoverMs })) ?? assert.fail('no server leads');
    const follower = servers.find((one) => one !== leading) ?? leading;
    await create(chance.yes(0.5) ? leading : follower);
    if (chance.yes(0.3)) await preemptOne(world, remote(follower));
    await sleep(chance.between(0, 2_000));
    const kind = kinds[count % kinds.length] ?? 'kill';
    const victim = chance.yes(0.8) ? leading : follower;
    const { child } = victim;
    assert.ok(child?.pid !== undefined);
    const before = await lease();
    const wasLeading = before.holder?.startsWith(`${child.pid}-`);
    const began = performance.now();
    if (kind === 'kill') child.kill('SIGKILL');
    else if (kind === 'stop') child.kill('SIGSTOP');
    else victim.proxy.cut(true);
    // The other one serves and creates meanwhile.
    const serving = victim === leading ? follower : leading;
    if (wasLeading) {
      const taken = await eventually(async () => (await lease()).epoch > before.epoch, {
        withinMs: 60_000,
        everyMs: 50,
      });
      assert.ok(taken, `no server took over after ${kind}`);
      takeovers.push(performance.now() - began);
    }
    await create(serving);
    await sleep(chance.between(0, 2_000));
    if (kind === 'kill') await victim.start();
    else if (kind === 'stop') child.kill('SIGCONT');
    else victim.proxy.cut(false);
  }

  const env = remote((await eventually(leader, { withinMs: maxTakeoverMs })) ?? assert.fail('no server leads'));
  const log = () => servers.map(({ home }) => readFileSync(join(home, 'server.log'), 'utf8').slice(-2_000)).join('\n');
  for (const id of created) {
    const waited = await world.jobman(['wait', id], { env, withinMs: 180_000 });
    assert.equal(waited.code, 0, `${id}: ${waited.stdout}${waited.stderr}\n${log()}`);
  }
  t.diagnostic(
    `${faults} faults, ${takeovers.length} takeovers, the longest after ${Math.round(Math.max(...takeovers))} ms; ${created.length} jobs, ${preempted()} preemptions`,
  );
  assert.ok(Math.max(...takeovers) <= maxTakeoverMs, `takeovers took ${takeovers.map(Math.round).join(', ')} ms`);
  assert.equal(new Set(created).size, created.length, 'an id was given twice');
  assert.ok(!existsSync(world.bucketPath('collisions')), 'two programs of a job ran together');
  const starts = readFileSync(world.bucketPath('starts'), 'utf8').trim().split('\n');
  assert.deepEqual(starts.toSorted(), [...new Set(starts)].toSorted(), 'an attempt was started twice');

  let allocations = 0;
  const repeated: string[] = [];
  for (const id of created) {
    const job = JSON.parse((await world.runOk(['show', id, '--json'], { env })).stdout) as {
      readonly attempts: readonly { readonly number: number }[];
      readonly allocations: readonly unknown[];
    };
    allocations += job.allocations.length;
    if (job.allocations.length > 1) repeated.push((await world.runOk(['history', id], { env })).stdout);
    const expected = Array.from({ length: lines }, (_, index) => `line ${index + 1}\n`).join('');
    for (const { number } of job.attempts) {
      for (const server of servers) {
        const args = ['logs', id, '--attempt', String(number), '--worker', '0'];
        const { stdout: text } = await world.jobman(args, { env: remote(server) });
        if (number === job.attempts.length) assert.equal(text, expected, `the log of ${id} by ${server.name}`);
        else assert.ok(expected.startsWith(text), `the log of attempt ${number} of ${id}: ${text}`);
      }
    }
  }
  assert.ok(
    allocations <= created.length + preempted(),
    `a TPU was requested without need, with ${preempted()} preemptions:\n${repeated.join('\n')}`,
  );
  // All of them are released again, so none was created twice.
  const left = async () =>
    JSON.parse(await world.output('emulator', 'status', '--json')) as { readonly tpus: unknown[] };
  assert.ok(
    await eventually(async () => (await left()).tpus.length === 0, { withinMs: 60_000 }),
    JSON.stringify(await left()),
  );
});

/** Does nothing if no job runs, or if the job has no TPU any more. */
async function preemptOne(world: JobWorld, env: Readonly<Record<string, string>>): Promise<void> {
  const { stdout } = await world.runOk(['list', '--json', '--phase', 'running'], { env });
  const [line = ''] = stdout.split('\n');
  if (line !== '') await world.jobman(['emulator', 'preempt', (JSON.parse(line) as { readonly id: string }).id]);
}

test('two servers with clocks five minutes apart and slow connections take over from each other, and the job notices nothing', async (t) => {
  const library = findFaketime();
  if (!requireReal(t, 'libfaketime', library) || library === undefined) return;
  const ahead = { LD_PRELOAD: library, FAKETIME: '+5m', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
  const set = await setUp(t, 'folder', ahead);
  if (set === undefined) return;
  const { postgres, name, world, servers, token } = set;
  const [one, other] = servers;
  assert.ok(one !== undefined && other !== undefined);
  const epoch = async () => Number((await postgres.query('select epoch from lease', name))[0]?.['epoch']);
  /** The servers give the lease to the next one within the time that is promised. */
  async function changes(cause: () => void): Promise<void> {
    const before = await epoch();
    const began = performance.now();
    cause();
    assert.ok(await eventually(async () => (await epoch()) > before, { withinMs: 60_000, everyMs: 50 }));
    assert.equal(await epoch(), before + 1);
    takeovers.push(performance.now() - began);
  }
  const takeovers: number[] = [];
  await one.start();
  await other.start();
  const run = `
    echo "$JOBMAN_JOB_ID $JOBMAN_ATTEMPT" >>~/bucket/starts
    until [ -e ~/bucket/done ]; do date +%s; sleep 1; done`;
  const manifest = world.tpuManifest(run, {
    name: 'held',
    tpu: { accelerator: 'v4-8' },
    job: { max_runtime: '4m', silence_timeout: '4m' },
    recovery: 'loop: failures',
  });
  const created = await world.jobman(['create', manifest, '--quiet', '--yes'], { env: remoteEnv(one, token) });
  const id = created.stdout.trim();
  const shown = async (server: ServerProcess) => {
    const { stdout } = await world.runOk(['show', id, '--json'], { env: remoteEnv(server, token) });
    return JSON.parse(stdout) as { readonly phase: string; readonly attempts: readonly unknown[] };
  };
  assert.ok(await eventually(async () => (await shown(one)).phase === 'running', { withinMs: 60_000 }));

  // Slow, but fast enough for three answers in the time of a lease.
  const before = await epoch();
  one.proxy.delay(250);
  await sleep(10_000);
  assert.equal(await epoch(), before);
  await changes(() => one.proxy.delay(2_000));
  one.proxy.delay(0);
  // Longer than a check of the job, whose limits are over by the clock of the other server.
  await sleep(8_000);
  assert.equal((await shown(other)).phase, 'running');
  await changes(() => other.proxy.cut(true));
  other.proxy.cut(false);
  await sleep(8_000);
  mkdirSync(world.bucketPath('done'));
  assert.equal((await world.jobman(['wait', id], { env: remoteEnv(one, token) })).code, 0);
  const { attempts } = await shown(other);
  assert.equal(attempts.length, 1);
  const starts = readFileSync(world.bucketPath('starts'), 'utf8').trim().split('\n');
  assert.deepEqual(
    starts.filter((line) => line.startsWith(id)),
    [`${id} 1`],
  );
  t.diagnostic(`takeovers after ${takeovers.map(Math.round).join(', ')} ms`);
  assert.ok(Math.max(...takeovers) <= maxTakeoverMs);
});

test('servers are upgraded one after the other, with a migration in between, while a job runs', async (t) => {
  const set = await setUp(t, 'folder');
  if (set === undefined) return;
  const { world, servers, token, manifest } = set;
  const [old, next] = servers;
  assert.ok(old !== undefined && next !== undefined);
  await old.start();
  const create = async (server: ServerProcess) => {
    const env = remoteEnv(server, token);
    const { code, stdout, stderr } = await world.jobman(['create', manifest, '--quiet', '--yes'], { env });
    return { code, id: stdout.trim(), stderr };
  };
  const running = await create(old);
  assert.equal(running.code, 0, running.stderr);
  const phase = async (server: ServerProcess) => {
    const { stdout } = await world.runOk(['show', running.id, '--json'], { env: remoteEnv(server, token) });
    return JSON.parse(stdout) as { readonly phase: string; readonly attempts: readonly unknown[] };
  };
  assert.ok(await eventually(async () => (await phase(old)).phase === 'running', { withinMs: 60_000 }));

  const newer = newerProgram(world);
  await next.start(newer);
  // The former version reads, and refuses to write what the next one may not understand.
  assert.ok(await eventually(async () => !(await fetch(`${old.url}/readyz`)).ok, { withinMs: 10_000 }));
  const refused = await create(old);
  assert.equal(refused.code, 5);
  assert.match(refused.stderr, /was written by a newer jobman/);
  await phase(old);
  const second = await create(next);
  assert.equal(second.code, 0, second.stderr);

  const { child } = old;
  child?.kill('SIGTERM');
  if (child !== undefined) await once(child, 'exit');
  await old.start(newer);
  for (const id of [running.id, second.id, (await create(old)).id])
    assert.equal((await world.jobman(['wait', id], { env: remoteEnv(old, token) })).code, 0, id);
  assert.equal((await phase(next)).attempts.length, 1);
  assert.ok(!existsSync(world.bucketPath('collisions')));
});

/** This program with one migration more, which adds a column. */
function newerProgram(world: JobWorld): readonly string[] {
  const folder = join(world.folder, 'newer');
  mkdirSync(folder);
  cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const edit = (name: string, change: (text: string) => string): void => {
    const file = join(folder, 'src/store', name);
    const text = readFileSync(file, 'utf8');
    assert.notEqual(change(text), text, name);
    writeFileSync(file, change(text));
  };
  edit('database.ts', (text) => text.replace(/schemaVersion = \d+/, `schemaVersion = ${schemaVersion + 1}`));
  const migration = `'${String(schemaVersion + 1).padStart(4, '0')}_later'`;
  edit('migrations.ts', (text) =>
    text.replace(
      "async '0001_baseline'",
      `async ${migration}(db) { await sql\`alter table job add column later text\`.execute(db); },\n  async '0001_baseline'`,
    ),
  );
  return [process.execPath, join(folder, 'src/main.ts')];
}
