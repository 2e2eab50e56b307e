// Shared by tests of real hosts: a key, an emulator in this process, ssh, and a check for remaining processes.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { queryEmulator } from '../../src/emulator/admin.ts';
import type { Emulator } from '../../src/emulator/contract.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { eventually as untilTrue } from '../support/eventually.ts';
import { run, type ProgramResult } from '../support/program.ts';

/** Repeats a check until it succeeds; fails with `what` after a long time. */
export async function eventually(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
  assert.ok(await untilTrue(isTrue, { everyMs: 50 }), `timed out: ${what}`);
}

export class SshUser {
  readonly folder = mkdtempSync(join(tmpdir(), 'emulator-user-'));
  /** Set it before the first use. */
  name = 'zephyr';

  constructor() {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'test', '-f', join(this.folder, 'key')]);
  }

  /** The line for `ssh-keys` metadata. */
  get metadataLine(): string {
    return `${this.name}:${readFileSync(join(this.folder, 'key.pub'), 'utf8').trim()}`;
  }

  /** Options that the system's ssh and scp share. */
  get options(): string[] {
    return [
      ['IdentityFile', join(this.folder, 'key')],
      ['IdentitiesOnly', 'yes'],
      ['StrictHostKeyChecking', 'no'],
      ['UserKnownHostsFile', '/dev/null'],
      ['LogLevel', 'ERROR'],
      ['BatchMode', 'yes'],
      // OpenSSH's default key exchange costs a quarter of a second of CPU per connection.
      ['KexAlgorithms', 'curve25519-sha256'],
    ].flatMap(([name, value]) => ['-o', `${String(name)}=${String(value)}`]);
  }

  /** The argv of an ssh to a worker. */
  argv(address: string, port: number, command: string, flags: readonly string[] = []): string[] {
    return [...flags, '-F', '/dev/null', ...this.options, '-p', String(port), `${this.name}@${address}`, command];
  }

  run(
    address: string,
    port: number,
    command: string,
    input = '',
    flags: readonly string[] = [],
  ): Promise<ProgramResult> {
    return run(['ssh', ...this.argv(address, port, command, flags)], { input });
  }

  /** Types into a login shell on a terminal. */
  shell(address: string, port: number, input: string): Promise<ProgramResult> {
    return run(['ssh', ...this.argv(address, port, '', ['-tt']).slice(0, -1)], { input });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/**
 * The nodes of an emulator that the tests of a suite share, all in one zone, and access to their workers. It starts
 * before the tests and leaves nothing behind.
 */
export class Nodes {
  /** Its key is in every node. */
  readonly user = new SshUser();
  readonly stateDir: string;
  emulator!: Emulator;
  /** The isolation of a host from the machine. */
  isolation: unknown;

  constructor(
    name: string,
    options: Omit<Parameters<typeof startEmulator>[0], 'stateDir' | 'env'> & { env?: NodeJS.ProcessEnv },
  ) {
    this.stateDir = mkdtempSync(join(tmpdir(), `emulator-${name}-`));
    before(async () => {
      const env = { PATH: '/usr/local/bin:/usr/bin:/bin' };
      this.emulator = await startEmulator({ env, ...options, stateDir: this.stateDir });
      this.isolation = (await queryEmulator(this.emulator.url, 'info'))['isolation'];
    });
    after(async () => {
      await this.emulator.close();
      this.user.remove();
      assertNothingLeft(this.stateDir);
      rmSync(this.stateDir, { recursive: true, force: true });
    });
  }

  get hasNamespaces(): boolean {
    return this.isolation !== 'none';
  }

  /** The collection's URL. */
  get url(): string {
    return `${this.emulator.url}/v2/projects/p/locations/us-central2-b/nodes`;
  }

  /** Creates a spot node with the user's key; returns the addresses of its workers once all of them answer. */
  async create(id: string, acceleratorType = 'v4-8', metadata: Record<string, string> = {}): Promise<string[]> {
    await fetchJson(`${this.url}?nodeId=${id}`, 'POST', {
      acceleratorType,
      runtimeVersion: 'tpu-ubuntu2204-base',
      schedulingConfig: { spot: true },
      metadata: { 'ssh-keys': this.user.metadataLine, ...metadata },
    });
    let addresses: string[] = [];
    await eventually(`${id} is READY`, async () => {
      const node: Record<string, unknown> = await fetchJson(`${this.url}/${id}`);
      addresses = ((node['networkEndpoints'] ?? []) as { ipAddress: string }[]).map((each) => each.ipAddress);
      return node['state'] === 'READY';
    });
    for (const address of addresses) await eventually(`${address} answers`, () => this.acceptsSsh(address));
    return addresses;
  }

  /** A test with its own node, which is removed at the end; it gets the addresses of the workers. */
  test(
    title: string,
    [id, type, metadata]: readonly [id: string, type?: string, metadata?: Record<string, string>],
    play: (first: string, second: string) => Promise<void>,
  ): void {
    test(title, async () => {
      const [first = '', second = ''] = await this.create(id, type, metadata);
      await play(first, second);
      await this.remove(id);
    });
  }

  async remove(id: string): Promise<void> {
    await fetchJson(`${this.url}/${id}`, 'DELETE');
    await eventually(`${id} is removed`, async () => 'error' in (await fetchJson(`${this.url}/${id}`)));
  }

  /** True when the SSH server of that worker accepts connections. */
  acceptsSsh(address: string): Promise<boolean> {
    return new Promise((resolve) => {
      const socket = connect(this.emulator.sshPort, address);
      socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
      socket.on('close', () => resolve(false));
      socket.setTimeout(2_000, () => socket.destroy());
      socket.on('connect', () => socket.destroy());
    });
  }

  ssh(address: string | undefined, command: string, input?: string, flags?: readonly string[]): Promise<ProgramResult> {
    return this.user.run(address ?? '', this.emulator.sshPort, command, input, flags);
  }
}

/** The processes of this machine whose environment names that host folder. */
export function processesOf(stateDir: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`EMULATOR_HOST=${stateDir}/`);
      } catch {
        return false;
      }
    });
}

/** Fails when processes or mounts of the emulator in that folder remain on this machine. */
export function assertNothingLeft(stateDir: string): void {
  assert.deepEqual(processesOf(stateDir), []);
  assert.equal(readFileSync('/proc/self/mountinfo', 'utf8').includes(stateDir), false, 'a mount is left');
}

export function hasProgram(name: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0;
}

export async function fetchJson(url: string, method = 'GET', body?: object): Promise<Record<string, never>> {
  const reply = await fetch(url, { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  return (await reply.json()) as Record<string, never>;
}
