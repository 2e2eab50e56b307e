/** exec, cp, port-forward and ssh through a server. The client has another home, without a key to the workers. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openInProcessEmulator } from '../support/in-process-emulator.ts';
import { jobman, startJobman, type JobmanOptions } from '../support/jobman.ts';
import { hasTerminal, runInTerminal } from '../support/run-in-terminal.ts';

const manifest = `job: {name: two, checkpoint_dir: none}
tpu: {project: lab, accelerator: v4-16, zone: us-central2-b, pricing: ondemand}
command: {run: sleep 1000}
`;

test('exec, cp, port-forward and ssh reach workers through a server', { timeout: 300_000 }, async (t) => {
  const { world, url: cloud, sshFor } = await openInProcessEmulator(t, 'none');
  const { port: sshPort } = await sshFor();
  const served = {
    JOBMAN_HOME: join(world.folder, 'served'),
    JOBMAN_TPU_ENDPOINT: cloud,
    JOBMAN_TPU_SSH_PORT: String(sshPort),
  };
  const tokenOf = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await jobman(world, ['token', 'create', ...args], { env: served });
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const admin = await tokenOf('--name', 'laptop');
  for (const [name, role] of [
    ['ada', 'member'],
    ['grace', 'member'],
    ['vera', 'viewer'],
  ] as const)
    assert.equal((await jobman(world, ['user', 'add', name, '--role', role], { env: served })).code, 0);
  const tokens = {
    ada: await tokenOf('--user', 'ada', '--name', 'a'),
    grace: await tokenOf('--user', 'grace', '--name', 'g'),
  };
  const viewer = await tokenOf('--user', 'vera', '--name', 'v');
  const serve = async (address: string) => {
    const server = startJobman(world, ['server', '--listen', address], { env: served, withinMs: 280_000 });
    await server.waitForOutput(/The server runs at \S+\./);
    const [, url = ''] = /runs at (\S+)\. /.exec(server.stdout) ?? [];
    return { server, url };
  };
  const first = await serve('127.0.0.1:0');
  const { url } = first;
  const as = (token: string, args: readonly string[], options: JobmanOptions = {}) =>
    jobman(world, args, { ...options, env: { JOBMAN_SERVER: url, JOBMAN_TOKEN: token } });
  const run = async (...args: readonly string[]) => as(tokens.ada, args);
  const runOk = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(...args);
    assert.equal(code, 0, `${args.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  writeFileSync(join(world.folder, 'two.yaml'), manifest);
  await runOk('create', 'two.yaml');
  const isRunning = async (): Promise<boolean> => (await runOk('list')).includes('running');
  assert.ok(await eventually(isRunning, { withinMs: 120_000, everyMs: 500 }), await runOk('why', '1'));

  // exec
  assert.match(await runOk('exec', '1', '--', 'echo on $(hostname)'), /\[0\] on .*w-0\n/);
  assert.equal((await run('exec', '1', '--workers', '1', '--', 'sh', '-c', 'kill -9 $$')).code, 137);
  const input = await as(tokens.ada, ['exec', '1', '--workers', '0', '--stdin', '--', 'tr a-z A-Z'], {
    input: 'typed\n',
  });
  assert.deepEqual([input.code, input.stdout], [0, 'TYPED\n']);
  const left = startJobman(world, ['exec', '1', '--', 'echo begun; exec sleep 4718'], {
    env: { JOBMAN_SERVER: url, JOBMAN_TOKEN: tokens.ada },
  });
  await left.waitForOutput(/begun[^]*begun/);
  left.child.kill('SIGINT');
  assert.equal((await left.result).code, 130);

  // cp
  mkdirSync(join(world.folder, 'data/sub'), { recursive: true });
  writeFileSync(join(world.folder, 'data/sub/big'), Buffer.alloc(3_000_000, 'jobman'));
  await runOk('cp', 'data', '1:data');
  await runOk('cp', '1:data', './back');
  for (const worker of [0, 1])
    assert.equal(readFileSync(join(world.folder, `back/worker-${worker}/data/sub/big`)).length, 3_000_000);
  const missing = await run('cp', '1:missing', './back2');
  assert.deepEqual([missing.code, missing.stdout], [3, ''], missing.stderr);

  // ssh, also on a terminal
  const shell = await as(tokens.ada, ['ssh', '1', '--worker', '1'], { input: 'echo in a shell\nexit 6\n' });
  assert.deepEqual([shell.code, shell.stdout], [6, 'in a shell\n']);
  assert.equal((await run('ssh', '1', '--', 'exit 7')).code, 7);
  assert.match((await run('ssh-config', '1')).stderr, /the keys of the workers stay on the server/);
  if (hasTerminal(t)) {
    const env = { ...world.env, JOBMAN_SERVER: url, JOBMAN_TOKEN: tokens.ada };
    const typed = [[/24 93/, 'echo typed $((6 * 7)); exit 5\r']] as const;
    const args = ['exec', '1', '--workers', '0', '-it', '--', 'stty size; exec sh'];
    const shown = await runInTerminal({ ...world, env }, 93, args, typed);
    assert.match(shown.screen, /typed 42\r\n/);
    assert.deepEqual([shown.code, shown.settingsRestored], [5, true]);
  }

  // port-forward
  const page = createServer((socket) => socket.end('a page\n'));
  await once(page.listen(0, '127.0.0.1'), 'listening');
  world.atEnd(() => void page.close());
  const { port } = page.address() as AddressInfo;
  const forward = startJobman(world, ['port-forward', '1', `0:${port}`], {
    env: { JOBMAN_SERVER: url, JOBMAN_TOKEN: tokens.ada },
  });
  await forward.waitForOutput(/forwards to port/);
  const [, here = ''] = /127\.0\.0\.1:(\d+) forwards/.exec(forward.stdout) ?? [];
  const fetched = () => text(connect(Number(here), '127.0.0.1'));
  assert.equal(await fetched(), 'a page\n');

  // Others
  for (const [token, sentence] of [
    [viewer, /your role is viewer|belongs to ada|may not/],
    [tokens.grace, /belongs to ada/],
  ] as const) {
    const { code, stderr } = await as(token, ['exec', '1', '--', 'true']);
    assert.equal(code, 4);
    assert.match(stderr, sentence);
  }
  const audit = await as(admin, ['audit', '--user', 'grace']);
  assert.match(audit.stdout, /denied +workers +job 000001/);
  const used = await as(admin, ['audit', '--user', 'ada', '--json', '--limit', '1000']);
  const rows = used.stdout.trimEnd().split('\n');
  const uses = rows.flatMap((line) => {
    const row = JSON.parse(line) as Readonly<Record<string, unknown>>;
    return row['operation'] === 'workers' ? [JSON.stringify(row['detail'])] : [];
  });
  assert.deepEqual(uses.slice(-2).toSorted(), ['{"worker":0}', '{"worker":1}'], 'the first exec');
  assert.ok(uses.includes(JSON.stringify({ worker: 0, port })), uses.join());

  // A server that is killed ends what runs through it, and the next one continues.
  const running = startJobman(world, ['exec', '1', '--workers', '0', '--', 'echo begun; exec sleep 4719'], {
    env: { JOBMAN_SERVER: url, JOBMAN_TOKEN: tokens.ada },
  });
  await running.waitForOutput('begun');
  first.server.child.kill('SIGKILL');
  const broken = await running.result;
  assert.equal(broken.code, 255);
  assert.match(broken.stderr, /the line broke while it ran: the connection to the server \S+ was lost/);
  const second = await serve(new URL(url).host);
  assert.ok(await eventually(async () => (await fetched().catch(() => '')) === 'a page\n', { everyMs: 200 }));
  forward.child.kill('SIGINT');
  assert.equal((await forward.result).code, 130);
  await runOk('exec', '1', '--', 'true');

  // A stop has a reason, and so has a revoked token.
  const stopped = startJobman(world, ['exec', '1', '--workers', '0', '--', 'echo begun; exec sleep 4720'], {
    env: { JOBMAN_SERVER: url, JOBMAN_TOKEN: tokens.ada },
  });
  await stopped.waitForOutput('begun');
  second.server.child.kill('SIGTERM');
  assert.match((await stopped.result).stderr, /the server stops/);
  assert.equal((await second.server.result).code, 0);
  assert.equal(existsSync(join(world.home, 'ssh')), false, 'the client has got no key');
});
