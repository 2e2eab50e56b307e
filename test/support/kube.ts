/**
 * A real Kubernetes cluster: the one of KUBECONFIG, or where one is required the one that `tools/kubernetes/up` brings up. Without one
 * the tests are skipped loudly; JOBMAN_REQUIRE_KUBERNETES=1 makes that a failure. Its people are the administrator, and somebody with
 * the least rights that every command of a user needs.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { parse, stringify } from 'yaml';
import { jobman, startJobman, type JobmanResult, type JobmanOptions, type RunningCommand } from './jobman.ts';
import { findProgram, requireReal } from './real.ts';
import { root } from './root.ts';
import { openWorld, type World } from './world.ts';

/** A cluster with a namespace of one test's own. */
export class Kube {
  readonly world: World;
  /** The kubeconfig of the cluster's administrator. */
  readonly admin: string;
  readonly namespace: string;
  readonly #program: string;

  constructor(world: World, admin: string, program: string) {
    this.world = world;
    this.admin = admin;
    this.#program = program;
    this.namespace = `jobman-${randomBytes(4).toString('hex')}`;
    this.#run('create', 'namespace', this.namespace);
    world.atEnd(() => void this.#run('delete', 'namespace', this.namespace, '--wait=false'));
  }

  #run(...args: readonly string[]): string {
    return execFileSync(this.#program, ['--kubeconfig', this.admin, ...args], {
      encoding: 'utf8',
      env: { ...this.world.env },
    });
  }

  kubectl(...args: readonly string[]): string {
    return this.#run('--namespace', this.namespace, ...args);
  }

  get<T>(...args: readonly string[]): T {
    return JSON.parse(this.kubectl('get', ...args, '-o', 'json')) as T;
  }

  /** The value at that path in what `get` finds. */
  field(path: string, ...args: readonly string[]): string {
    return this.kubectl('get', ...args, '-o', `jsonpath={${path}}`);
  }

  /** The Jobs of the namespace, one name a line. */
  jobs(): string {
    return this.kubectl('get', 'jobs', '-o', 'name').trim();
  }

  apply(name: string, ...objects: readonly object[]): void {
    const file = join(this.world.folder, `${name}.json`);
    writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
    this.kubectl('apply', '-f', file);
  }

  /** Where the API server is. */
  server(): string {
    const { clusters } = parse(readFileSync(this.admin, 'utf8')) as Kubeconfig;
    return String(clusters[0]?.cluster['server']);
  }

  /** The administrator, whose namespace is this test's where the wishes name no other kubeconfig. */
  adminUser(options: UserOptions = {}): ClusterUser {
    return new ClusterUser(this.world, 'admin', { kubeconfig: this.namespacedKubeconfig(), ...options });
  }

  /**
   * Somebody who may do in the namespace what `jobman` asks of a user, and nothing else: the rights that docs/kubernetes.md
   * names.
   */
  leastPrivilegeUser(options: UserOptions = {}): ClusterUser {
    const account = 'researcher';
    this.kubectl('create', 'serviceaccount', account);
    const rules = [
      { apiGroups: ['batch'], resources: ['jobs'], verbs: ['create', 'get', 'list', 'watch', 'patch', 'delete'] },
      { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] },
      { apiGroups: [''], resources: ['pods/log'], verbs: ['get'] },
    ];
    const metadata = { name: account, namespace: this.namespace };
    const group = 'rbac.authorization.k8s.io';
    const roleRef = { apiGroup: group, kind: 'Role', name: account };
    const subjects = [{ kind: 'ServiceAccount', ...metadata }];
    this.apply(
      'rights',
      { apiVersion: `${group}/v1`, kind: 'Role', metadata, rules },
      { apiVersion: `${group}/v1`, kind: 'RoleBinding', metadata, subjects, roleRef },
    );
    return new ClusterUser(this.world, account, { kubeconfig: this.kubeconfigFor(account), ...options });
  }

  /** A kubeconfig with a token of that service account, whose contexts mean this namespace. */
  kubeconfigFor(account: string): string {
    const token = this.kubectl('create', 'token', account, '--duration=1h').trim();
    return changedKubeconfig(this.world, this.namespacedKubeconfig(), ({ users }) => {
      for (const one of users) one.user = { token };
    });
  }

  /** The administrator's kubeconfig, whose contexts mean this namespace. */
  namespacedKubeconfig(): string {
    return changedKubeconfig(this.world, this.admin, ({ contexts }) => {
      for (const { context } of contexts) context['namespace'] = this.namespace;
    });
  }
}

/** A user's kubeconfig and settings, where they are not the usual ones. */
interface UserOptions {
  readonly kubeconfig?: string;
  readonly settings?: object;
}

/** A command's words; a text is parted at its blanks. */
type CommandLine = string | readonly string[];

const splitCommandLine = (commandLine: CommandLine): readonly string[] =>
  typeof commandLine === 'string' ? commandLine.split(' ') : commandLine;

/** Small enough to be placed beside anything. */
export const tinyFlavor = '{"name":"tiny","resources":{"requests":{"cpu":"10m","memory":"20M"}}}';

/** Settings of tests in which no controller has a part. */
export const withoutLogArchive = { settings: { kubernetes: { keepLogs: false } } };

/** Somebody who uses jobman on that cluster, with a home and a kubeconfig of their own. */
export class ClusterUser {
  readonly world: World;
  readonly name: string;
  readonly kubeconfig: string;
  readonly home: string;

  constructor(world: World, name: string, { kubeconfig = '', settings }: UserOptions) {
    this.world = world;
    this.name = name;
    this.kubeconfig = kubeconfig;
    this.home = join(world.folder, `home-${name}`);
    mkdirSync(this.home, { mode: 0o700, recursive: true });
    if (settings !== undefined) writeFileSync(join(this.home, 'settings.json'), JSON.stringify(settings));
    // A job that is submitted may have started the controller that keeps its logs.
    world.atEnd(async () => void (await this.run('controller stop')));
  }

  /** The same person by another way to the cluster. */
  withKubeconfig(kubeconfig: string): ClusterUser {
    return new ClusterUser(this.world, this.name, { kubeconfig });
  }

  get env(): Readonly<Record<string, string>> {
    return { KUBECONFIG: this.kubeconfig, JOBMAN_HOME: this.home };
  }

  #with(options: JobmanOptions): JobmanOptions {
    return { withinMs: 180_000, ...options, env: { ...this.env, ...options.env } };
  }

  run(commandLine: CommandLine, options: JobmanOptions = {}): Promise<JobmanResult> {
    return jobman(this.world, splitCommandLine(commandLine), this.#with(options));
  }

  start(commandLine: CommandLine, options: JobmanOptions = {}): RunningCommand {
    return startJobman(this.world, splitCommandLine(commandLine), this.#with(options));
  }

  /** What a command prints that must end well. */
  async output(commandLine: CommandLine, options: JobmanOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.run(commandLine, options);
    assert.equal(code, 0, `jobman ${String(commandLine)}\n${stdout}${stderr}`);
    return stdout;
  }

  /** A command that must end with that code, with one message that says that, and without any other output. */
  async runRefused(code: number, pattern: RegExp, commandLine: CommandLine): Promise<void> {
    const result = await this.run(commandLine);
    const transcript = `jobman ${String(commandLine)}\n${result.stdout}${result.stderr}`;
    assert.deepEqual([result.code, result.stdout], [code, ''], transcript);
    assert.match(result.stderr, pattern, transcript);
    // One message: an unexpected failure of our own would be told with a stack.
    assert.equal(result.stderr.split('\n').filter((line) => line.startsWith('jobman: ')).length, 1, transcript);
    assert.doesNotMatch(result.stderr, /^ +at /m, transcript);
  }

  /** Submits a small job that runs this shell line; flags as a text. */
  submit(name: string, program: string, flags = ''): Promise<string> {
    const more = flags.split(' ').filter(Boolean);
    return this.output([
      'submit',
      '-q',
      '-i',
      'alpine',
      '-r',
      tinyFlavor,
      '-j',
      name,
      ...more,
      '--',
      '/bin/sh',
      '-c',
      program,
    ]);
  }
}

const upScript = join(root, 'tools/kubernetes/up');
const downScript = join(root, 'tools/kubernetes/down');

type Skipper = Pick<TestContext, 'skip'>;

/** A missing cluster is a failure only where one is required. */
const requirement = { JOBMAN_REQUIRE_REAL: process.env['JOBMAN_REQUIRE_KUBERNETES'] };
const isRequired = requirement.JOBMAN_REQUIRE_REAL === '1';

let foundKubeconfig: string | undefined;

/** The path of a kubeconfig that works; undefined where there is no cluster. */
function findKubeconfig(): string | undefined {
  const named = process.env['KUBECONFIG'];
  if (named !== undefined && existsSync(named)) foundKubeconfig = named;
  else if (isRequired) foundKubeconfig ??= lastLine(execFileSync(upScript, { encoding: 'utf8' }));
  return foundKubeconfig;
}

const lastLine = (text: string): string => text.trim().split('\n').at(-1) ?? '';

/** Undefined, with the test skipped, where there is no cluster or no kubectl to compare with. */
function openKube(t: Skipper, world: World, admin = findKubeconfig()): Kube | undefined {
  if (!requireReal(t, 'Kubernetes cluster (KUBECONFIG)', admin, requirement)) return undefined;
  const program = findProgram('kubectl');
  if (!requireReal(t, 'kubectl', program, requirement)) return undefined;
  return new Kube(world, admin ?? '', program ?? '');
}

/** A test in a namespace of its own; skipped loudly where there is no cluster. */
export function kubeTest(name: string, run: (kube: Kube, t: TestContext) => Promise<void>): void {
  test(name, async (t) => {
    const kube = openKube(t, openWorld(t, { patienceMs: 20_000 }));
    if (kube !== undefined) await run(kube, t);
  });
}

/** A cluster of one test's own, which may be hurt. */
export interface DedicatedCluster {
  readonly kube: Kube;
  /** The API server is killed, and is away until it is brought back. */
  killServer(): void;
  restartServer(): void;
}

/** The first of nine ports that no other cluster of tests uses. */
const dedicatedPort = '19440';

/**
 * Brings up a second cluster; it is gone at the end. Undefined, with the test skipped, for a user who is not root, or where
 * no cluster is required.
 */
export function openDedicatedCluster(t: Skipper, world: World): DedicatedCluster | undefined {
  const isPossible = (process.env['KUBECONFIG'] !== undefined || isRequired) && process.getuid?.() === 0;
  if (!requireReal(t, 'Kubernetes cluster of its own', isPossible, requirement)) return undefined;
  const state = join(world.folder, 'kube');
  const clusterEnv = { JOBMAN_KUBE_STATE: state, JOBMAN_KUBE_PORT: dedicatedPort, JOBMAN_KUBE_ADDRESS: '10.213.0.19' };
  const run = (program: string): string =>
    execFileSync(program, {
      encoding: 'utf8',
      env: { ...process.env, ...clusterEnv },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  world.atEnd(() => void run(downScript));
  const kube = openKube(t, world, lastLine(run(upScript)));
  if (kube === undefined) return undefined;
  return {
    kube,
    killServer() {
      const [pid = ''] = readFileSync(join(state, 'pids/apiserver'), 'utf8').split(' ');
      process.kill(Number(pid), 'SIGKILL');
    },
    restartServer: () => void run(upScript),
  };
}

interface Kubeconfig {
  readonly clusters: { cluster: Record<string, unknown> }[];
  readonly contexts: { context: Record<string, unknown> }[];
  readonly users: { user: Record<string, unknown> }[];
}

/** A copy of a kubeconfig, changed; its path. */
export function changedKubeconfig(world: World, from: string, change: (config: Kubeconfig) => void): string {
  const config = parse(readFileSync(from, 'utf8')) as Kubeconfig;
  change(config);
  const path = join(world.folder, `kubeconfig-${randomBytes(4).toString('hex')}`);
  writeFileSync(path, stringify(config));
  return path;
}

/** A line to the API server that is cut every now and then, and when `cutConnections` is called. */
export interface FlakyProxy {
  /** The administrator's way over it. */
  readonly kubeconfig: string;
  readonly cutCount: () => number;
  readonly cutConnections: () => void;
}

export async function openFlakyProxy(kube: Kube, everyMs = 3_600_000): Promise<FlakyProxy> {
  const { hostname, port } = new URL(kube.server());
  const sockets = new Set<Socket>();
  let cutCount = 0;
  const listener = createServer((clientSocket) => {
    const serverSocket = connect(Number(port), hostname);
    for (const socket of [clientSocket, serverSocket]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        clientSocket.destroy();
        serverSocket.destroy();
      });
    }
    clientSocket.pipe(serverSocket).pipe(clientSocket);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const cutConnections = (): void => {
    if (sockets.size > 0) cutCount += 1;
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const timer = setInterval(cutConnections, everyMs);
  kube.world.atEnd(async () => {
    clearInterval(timer);
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => listener.close(resolve));
  });
  const server = `https://127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const kubeconfig = changedKubeconfig(kube.world, kube.namespacedKubeconfig(), ({ clusters }) => {
    for (const { cluster } of clusters) cluster['server'] = server;
  });
  return { kubeconfig, cutCount: () => cutCount, cutConnections };
}
