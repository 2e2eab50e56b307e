// kill -9 of the emulator: earlier promises hold, and hosts keep running.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { runAdminVerb } from '../../src/emulator/admin.ts';
import { assertNothingLeft, eventually, fetchJson, hasProgram, processesOf, SshUser } from './emulator-host.ts';

const parent = 'projects/p/locations/us-central2-b';

describe('the emulator is killed', { skip: hasProgram('ssh') ? false : 'there is no ssh here' }, () => {
  const stateDir = mkdtempSync(join(tmpdir(), 'emulator-kill-'));
  const note = join(stateDir, 'endpoint.json');
  const user = new SshUser();
  let program: ChildProcess | undefined;
  let url = '';
  let sshPort = 0;

  before(start);

  after(async () => {
    await end('SIGTERM');
    user.remove();
    assertNothingLeft(stateDir);
    assert.equal(existsSync(note), false, 'endpoint.json is removed at a proper end');
    rmSync(stateDir, { recursive: true, force: true });
  });

  async function start(): Promise<void> {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'emulator-program.ts'), stateDir, '400'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    program = child;
    const ready = await new Promise<string>((resolve) =>
      child.stdout.once('data', (text: Buffer) => resolve(String(text))),
    );
    assert.match(ready, /^READY http:\/\/127\.0\.0\.1:\d+\n$/);
    const endpoint = JSON.parse(readFileSync(note, 'utf8')) as { url: string; sshPort: number; pid: number };
    assert.equal(`READY ${endpoint.url}\n`, ready);
    assert.equal(endpoint.pid, child.pid);
    ({ url, sshPort } = endpoint);
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const child = program;
    if (child === undefined || child.exitCode !== null) return;
    await new Promise<void>((resolve) => {
      child.on('exit', () => resolve());
      child.kill(signal);
    });
  }

  const node = async (id: string): Promise<Record<string, unknown>> => fetchJson(`${url}/v2/${parent}/nodes/${id}`);

  async function createNode(id: string): Promise<Record<string, unknown>> {
    return fetchJson(`${url}/v2/${parent}/nodes?nodeId=${id}`, 'POST', {
      acceleratorType: 'v4-8',
      runtimeVersion: 'tpu-ubuntu2204-base',
      schedulingConfig: { spot: true },
      metadata: { 'ssh-keys': user.metadataLine },
    });
  }

  test('a program on a READY node keeps running at its address, and ends with the node', async () => {
    await createNode('n1');
    await eventually('n1 is READY', async () => (await node('n1'))['state'] === 'READY');
    await runAdminVerb(url, 'clear', 'all');
    const before = await node('n1');
    const [endpoint] = before['networkEndpoints'] as { ipAddress: string }[];
    const address = endpoint?.ipAddress ?? '';
    const portBefore = sshPort;
    const urlBefore = url;
    const started = await user.run(address, sshPort, 'setsid sleep 31363 >/dev/null 2>&1 </dev/null & echo $!');
    const bootId = await user.run(address, sshPort, 'cat /proc/sys/kernel/random/boot_id');

    await end('SIGKILL');
    assert.equal((await user.run(address, sshPort, 'true')).code, 255);
    await start();
    assert.equal(url, urlBefore);
    assert.equal(sshPort, portBefore);
    assert.deepEqual(await node('n1'), before);
    await runAdminVerb(url, 'clear', 'all');
    const programs = await user.run(address, sshPort, 'sudo echo as root && hostname && command -v gcsfuse apt-get');
    assert.equal(programs.code, 0, `programs of a TPU VM are left: ${programs.stderr}`);
    const inspected = await user.run(
      address,
      sshPort,
      `kill -0 ${started.stdout.trim()} && cat /proc/sys/kernel/random/boot_id`,
    );
    assert.equal(inspected.stdout, bootId.stdout, inspected.stderr);

    await runAdminVerb(url, 'preempt', 'n1');
    assertNothingLeft(stateDir);
  });

  test('an accepted creation continues; a node that was preempted meanwhile has no host left', async () => {
    await createNode('n2');
    await eventually('n2 is READY', async () => (await node('n2'))['state'] === 'READY');
    await runAdminVerb(url, 'clear', 'all');
    await fetchJson(`${url}/v2/${parent}/nodes/n2`, 'DELETE');
    const begun = await createNode('n3');
    await end('SIGKILL');
    await start();
    await eventually('n3 is READY', async () => (await node('n3'))['state'] === 'READY');
    const operation: Record<string, unknown> = await fetchJson(`${url}/v2/${String(begun['name'])}`);
    assert.equal(operation['done'], true);
    await eventually('n2 is gone', async () => 'error' in (await node('n2')));
    await runAdminVerb(url, 'preempt', 'n3');
    // Ending processes count too. The emulator that ended them is gone, so they are not its children.
    await eventually('nothing is left', async () => processesOf(stateDir).length === 0);
    assertNothingLeft(stateDir);
  });

  test('a second emulator on the same folder is refused with a sentence', async () => {
    const second = spawn(process.execPath, [join(import.meta.dirname, 'emulator-program.ts'), stateDir], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let errors = '';
    second.stderr.on('data', (text: Buffer) => (errors += String(text)));
    const code = await new Promise((resolve) => second.on('close', resolve));
    assert.notEqual(code, 0);
    assert.match(errors, /Another emulator is running on .*\. Stop it, or name another state folder\./);
    assert.equal(existsSync(note), true, 'the first emulator keeps its endpoint.json');
  });
});
