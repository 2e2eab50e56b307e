/** Sessions with a real OpenSSH server, over a direct connection and over the relay; then on the TPU emulator. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { symlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { CopyRequest, Program, Session, SessionEnd } from '../../src/app/worker-access.ts';
import { copyFromRemote, copyToRemote } from '../../src/remote/copy.ts';
import { connectRelay, serveRelay } from '../../src/remote/relay.ts';
import type { SshTransport } from '../../src/remote/ssh.ts';
import { eventually } from '../support/eventually.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openJobWorld } from '../support/jobs.ts';
import { poolOn, sshdTest, targetOn, transportOn } from '../support/ssh.ts';

interface StartedSession {
  readonly session: Session;
  readonly out: () => Buffer;
  readonly err: () => string;
}

function begin(
  transport: SshTransport,
  program: Program,
  receives = false,
  entry: string | null = null,
): StartedSession {
  const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  const session = transport.session(
    { program, hasInput: receives, onBytes: (chunk, stream) => void kept[stream].push(chunk) },
    entry,
  );
  return { session, out: () => Buffer.concat(kept.stdout), err: () => Buffer.concat(kept.stderr).toString() };
}

const line = (text: string): Program => ({ kind: 'line', line: text });
const argv = (...args: readonly string[]): Program => ({ kind: 'argv', argv: args });
const ended = (exitCode: number | null, signal: string | null = null): SessionEnd => ({
  kind: 'ended',
  exitCode,
  signal,
});

/** True when a process has exactly this command line. */
function runs(...args: readonly string[]): boolean {
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8') === `${args.join('\0')}\0`;
    } catch {
      return false;
    }
  });
}

sshdTest('a line runs in the remote shell, an argv does not, and the exit code is the program’s own', async (sshd) => {
  writeFileSync(join(sshd.home, '.bashrc'), 'echo noise; echo noise >&2\n');
  const transport = transportOn(sshd);
  const asLine = begin(transport, line('echo "$HOME" | cat; echo err >&2; exit 7'));
  assert.deepEqual(await asLine.session.ended, ended(7));
  // The shell reads its start-up file, as it does for ssh.
  assert.deepEqual([asLine.out().toString(), asLine.err()], [`noise\n${sshd.home}\n`, 'noise\nerr\n']);
  const asArgv = begin(transport, argv('printf', '%s|', '$HOME', "it's", 'a  b', '*', 'two\nlines', ''));
  assert.deepEqual(await asArgv.session.ended, ended(0));
  assert.equal(asArgv.out().toString(), "$HOME|it's|a  b|*|two\nlines||");
  assert.deepEqual(await begin(transport, line('kill -KILL $$')).session.ended, ended(null, 'KILL'));
  const noInput = begin(transport, argv('cat'));
  assert.deepEqual(await noInput.session.ended, ended(0));
});

sshdTest('the reason why a program could not start is reported', async (sshd) => {
  writeFileSync(join(sshd.home, '.bashrc'), 'echo noise; echo noise >&2\n');
  const transport = transportOn(sshd);
  const refused = begin(transport, line('echo never'), false, "exec sh -c 'echo no container >&2; exit 125'");
  assert.deepEqual(await refused.session.ended, ended(125));
  assert.deepEqual([refused.out().toString(), refused.err()], ['', 'noise\nno container\n']);
  const entered = begin(transport, argv('printf', 'in\\n'), false, "exec sh -c 'echo on the way >&2; exec sh -s'");
  assert.deepEqual(await entered.session.ended, ended(0));
  assert.deepEqual(
    [entered.out().toString(), entered.err()],
    ['in\n', ''],
    "a started program's own output is not mixed with it",
  );
});

sshdTest('bytes pass unchanged in both directions, and a program that stops reading blocks nothing', async (sshd) => {
  const transport = transportOn(sshd);
  const bytes = randomBytes(5_000_000);
  const cat = begin(transport, argv('cat'), true);
  await cat.session.write(bytes);
  cat.session.end();
  assert.deepEqual(await cat.session.ended, ended(0));
  const sum = (of: Buffer): string => createHash('sha256').update(of).digest('hex');
  assert.equal(sum(cat.out()), sum(bytes));
  // The input contains our own protocol lines, which must be treated as data.
  const head = begin(transport, line('head -c 3; exec 0<&-; sleep 0.5; echo " done"'), true);
  await head.session.write(Buffer.concat([Buffer.from('abc'), Buffer.from('\nstop\n'.repeat(50_000))]));
  head.session.end();
  assert.deepEqual(await head.session.ended, ended(0));
  assert.equal(head.out().toString(), 'abc done\n');
});

sshdTest(
  'stop ends the program and its children, also those that ignore signals; so does a lost connection',
  async (sshd) => {
    const pool = poolOn(sshd);
    const transport = pool.transport(targetOn(sshd));
    const polite = begin(transport, line('sleep 4711 & echo begun; wait'));
    assert.ok(await eventually(() => polite.out().length > 0));
    polite.session.stop();
    assert.deepEqual(await polite.session.ended, ended(null, 'TERM'));
    assert.ok(await eventually(() => !runs('sleep', '4711')));

    const deaf = begin(transport, line('trap "" TERM; sleep 4712 & echo begun; while :; do sleep 4713; done'));
    assert.ok(await eventually(() => deaf.out().length > 0));
    deaf.session.stop();
    assert.deepEqual(await deaf.session.ended, ended(null, 'KILL'));
    assert.ok(await eventually(() => !runs('sleep', '4712') && !runs('sleep', '4713')));

    const cut = begin(transport, line('echo begun; exec sleep 4714'));
    assert.ok(await eventually(() => cut.out().length > 0));
    // The marker is printed before the shell has become the program.
    assert.ok(await eventually(() => runs('sleep', '4714')));
    pool.close();
    assert.equal((await cut.session.ended).kind, 'unreachable');
    assert.ok(await eventually(() => !runs('sleep', '4714'), { withinMs: 60_000 }));
  },
);

sshdTest('background processes of a program survive its normal end', async (sshd) => {
  const transport = transportOn(sshd);
  const program = line('sleep 4 >/dev/null 2>&1 </dev/null & echo $!');
  const leaving = begin(transport, program);
  assert.deepEqual(await leaving.session.ended, ended(0));
  assert.ok(existsSync(`/proc/${leaving.out().toString().trim()}`));
  assert.ok(await eventually(() => !existsSync(`/proc/${leaving.out().toString().trim()}`), { withinMs: 60_000 }));
});

sshdTest(
  'the relay passes everything on, ends the sessions of a client that exits, and refuses other versions',
  async (sshd) => {
    const transport = transportOn(sshd);
    const file = join(sshd.world.folder, 'ssh', 'relay.sock');
    const close = await serveRelay({
      file,
      version: '1',
      async start(job, worker, request) {
        if (job !== '000042') throw new Error(`There is no job ${job}.`);
        return transport.session({ ...request, program: worker === 0 ? request.program : argv('false') }, null);
      },
    });
    sshd.world.atEnd(async () => close?.());
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.equal(await connectRelay(file, '2'), undefined);
    assert.equal(await connectRelay(`${file}.none`, '1'), undefined);
    const relay = await connectRelay(file, '1');
    assert.ok(relay);
    const parts: Uint8Array[] = [];
    const request = {
      program: argv('cat'),
      environment: 'host',
      hasInput: true,
      onBytes: (chunk: Uint8Array) => void parts.push(chunk),
    } as const;
    const bytes = randomBytes(3_000_000);
    const cat = relay.start('000042', 0, request);
    await cat.write(bytes);
    cat.end();
    assert.deepEqual(await cat.ended, ended(0));
    assert.ok(Buffer.concat(parts).equals(bytes));
    assert.deepEqual(await relay.start('000042', 1, { ...request, hasInput: false }).ended, ended(1));
    const none = await relay.start('000043', 0, request).ended;
    assert.deepEqual(none, { kind: 'unreachable', reason: 'There is no job 000043.', mayHaveRun: false });
    const left = relay.start('000042', 0, { ...request, program: argv('sleep', '4715'), hasInput: false });
    assert.ok(await eventually(() => runs('sleep', '4715')));
    relay.close();
    assert.equal((await left.ended).kind, 'unreachable');
    assert.ok(await eventually(() => !runs('sleep', '4715'), { withinMs: 60_000 }));
  },
);

sshdTest(
  'copies keep modes and links, appear complete or not at all, and replace a folder only on request',
  async (sshd) => {
    const pool = poolOn(sshd);
    const transport = pool.transport(targetOn(sshd));
    const start = (request: Parameters<Parameters<typeof copyToRemote>[0]>[0]): Session =>
      transport.session(request, null);
    const cwd = join(sshd.world.folder, 'here');
    mkdirSync(join(cwd, 'data', 'sub'), { recursive: true });
    writeFileSync(join(cwd, 'data', 'run'), '#!/bin/sh\n');
    chmodSync(join(cwd, 'data', 'run'), 0o751);
    symlinkSync('run', join(cwd, 'data', 'link'));
    writeFileSync(join(cwd, 'data', 'sub', 'big'), randomBytes(2_500_000));
    const ask = (more: Partial<CopyRequest>): CopyRequest & { readonly cwd: string } => ({
      from: 'data',
      to: '',
      replace: false,
      onProgress: () => undefined,
      signal: new AbortController().signal,
      cwd,
      ...more,
    });
    assert.equal((await copyToRemote(start, ask({ to: 'new folder/' }))).kind, 'done');
    const there = join(sshd.home, 'new folder', 'data');
    assert.equal(statSync(join(there, 'run')).mode & 0o777, 0o751);
    assert.ok(lstatSync(join(there, 'link')).isSymbolicLink());
    const inTheWay = await copyToRemote(start, ask({ to: '~/new folder' }));
    assert.deepEqual(inTheWay, { kind: 'failed', cause: 'conflict', reason: '~/new folder/data exists' });
    writeFileSync(join(there, 'old'), '');
    assert.equal((await copyToRemote(start, ask({ to: '~/new folder', replace: true }))).kind, 'done');
    assert.equal(existsSync(join(there, 'old')), false);
    assert.deepEqual(await copyToRemote(start, ask({ to: 'none/data' })), {
      kind: 'failed',
      cause: 'missing',
      reason: 'the folder ~/none does not exist',
    });

    const back = await copyFromRemote(start, ask({ from: 'new folder/data', to: 'back' }));
    assert.deepEqual(back, { kind: 'done', path: join(cwd, 'back'), bytes: 2_500_010 }, 'the bytes of its files');
    assert.equal(spawnSync('diff', ['-r', join(cwd, 'data'), join(cwd, 'back')]).status, 0);
    assert.equal((await copyFromRemote(start, ask({ from: 'nothing', to: '.' }))).kind, 'failed');

    // The connection breaks in the middle of a copy.
    writeFileSync(join(cwd, 'data', 'sub', 'big'), randomBytes(30_000_000));
    let portions = 0;
    const half = await copyToRemote(
      start,
      ask({
        to: 'half',
        onProgress() {
          // More than all buffers hold, so that the remote side has started to write.
          portions += 1;
          if (portions === 10) pool.close();
        },
      }),
    );
    assert.equal(half.kind, 'unreachable');
    const rest = (): readonly string[] => readdirSync(sshd.home).filter((name) => /half|jobman-cp/.test(name));
    assert.ok(await eventually(() => rest().length === 0, { withinMs: 60_000 }), 'nothing of it is left there');
    assert.deepEqual(readdirSync(cwd).toSorted(), ['back', 'data']);
  },
);

test('the same commands on the TPU emulator', async (t) => {
  if (!requireReal(t, 'ssh', findProgram('ssh'))) return;
  const world = openJobWorld(t);
  const manifest = join(world.folder, 'hold.yaml');
  writeFileSync(
    manifest,
    `job: { name: hold, checkpoint_dir: ~/none }
tpu: { project: emulator, name: hold, accelerator: v4-16, zone: us-central2-b, pricing: spot, version: tpu-ubuntu2204-base }
command:
  cmd: |
    # All workers of the TPU emulator have the ports of one machine.
    [ "$JOBMAN_WORKER" = 0 ] || exec sleep 1000
    echo page >index.html; exec python3 -m http.server --bind 127.0.0.1 17113
`,
  );
  await world.output('create', manifest);
  const isRunning = async (): Promise<boolean> => (await world.output('list', '--phase', 'running')).includes('hold');
  const later = { withinMs: 60_000 };
  assert.ok(await eventually(isRunning, later));

  // Through the controller's connections, and through our own while it is stopped.
  const both = '[0] here\n[1] here\n';
  assert.equal(
    (await world.output('exec', '1', '--', 'echo', 'here')).split('\n').toSorted().join('\n').trimStart(),
    both.trimEnd(),
  );
  await world.output('controller', 'stop');
  assert.equal(await world.output('exec', '1', '--workers', '1', '--', 'echo $((6 * 7))'), '42\n');
  await world.output('controller', 'start');

  await world.output('cp', manifest, '1:');
  await world.output('cp', '1:hold.yaml', world.folder);
  for (const worker of [0, 1])
    assert.equal(
      readFileSync(join(world.folder, `worker-${worker}`, 'hold.yaml'), 'utf8'),
      readFileSync(manifest, 'utf8'),
    );

  const config = join(world.folder, 'ssh.config');
  writeFileSync(config, await world.output('ssh-config', '1'));
  for (const [host, number] of [
    ['jobman-1', '0'],
    ['jobman-1-1', '1'],
  ] as const) {
    const { stdout, stderr } = spawnSync('ssh', ['-F', config, host, 'hostname'], { encoding: 'utf8', env: world.env });
    assert.match(stdout, new RegExp(`-w-${number}\n$`), stderr);
  }

  // A forwarded port survives the TPU that it led to.
  const forward = world.start(['port-forward', '1', '0:17113'], { withinMs: 120_000 });
  await forward.waitForOutput(/http:\/\/127\.0\.0\.1:\d+ forwards to port 17113/);
  const port = Number(/127\.0\.0\.1:(\d+)/.exec(forward.stdout)?.[1]);
  const answers = async (): Promise<boolean> =>
    (await ask(port, 'GET /index.html HTTP/1.0\r\n\r\n')).endsWith('page\n');
  assert.ok(await eventually(answers, later));
  await world.output('emulator', 'preempt', '1');
  await forward.waitForOutput('000001 has moved: forwarding to worker', 90_000);
  assert.ok(await eventually(answers, later));
  forward.child.kill('SIGINT');
  assert.equal((await forward.result).code, 130);
});

/** The response of a server; empty when it does not answer. */
function ask(port: number, request: string): Promise<string> {
  return new Promise((resolve) => {
    let output = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(request));
    socket.setEncoding('utf8').on('data', (text: string) => (output += text));
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(output));
  });
}
