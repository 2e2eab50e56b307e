/**
 * A real Kubernetes cluster: the one of KUBECONFIG, or one that `tools/kubernetes/up` starts. Without a cluster the
 * tests are skipped with a message; JOBMAN_REQUIRE_KUBERNETES=1 makes that a failure. Its users are the administrator,
 * and one with the least permissions for a user's commands.
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

/** A cluster with a namespace for one test. */
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

  /** The value at that path in the object. */
  field(path: string, ...args: readonly string[]): string {
    return this.kubectl('get', ...args, '-o', `jsonpath={${path}}`);
  }

  /** The Jobs of the namespace, one name per line. */
  jobs(): string {
    return this.kubectl('get', 'jobs', '-o', 'name').trim();
  }

  apply(name: string, ...objects: readonly object[]): void {
    const file = join(this.world.folder, `${name}.json`);
    writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
    this.kubectl('apply', '-f', file);
  }

  /** The address of the API server. */
  server(): string {
    const { clusters } = parse(readFileSync(this.admin, 'utf8')) as Kubeconfig;
    return String(clusters[0]?.cluster['server']);
  }

  /** The administrator, in this test's namespace unless the options name another kubeconfig. */
  adminUser(options: UserOptions = {}): ClusterUser {
    return new ClusterUser(this.world, 'admin', { kubeconfig: this.namespacedKubeconfig(), ...options });
  }

  /** A user with exactly the permissions in docs/kubernetes.md, in this namespace. */
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

  /** A kubeconfig with a token of that service account and this namespace. */
  kubeconfigFor(account: string): string {
    const token = this.kubectl('create', 'token', account, '--duration=1h').trim();
    return changedKubeconfig(this.world, this.namespacedKubeconfig(), ({ users }) => {
      for (const one of users) one.user = { token };
    });
  }

  /** The administrator's kubeconfig with this namespace. */
  namespacedKubeconfig(): string {
    return changedKubeconfig(this.world, this.admin, ({ contexts }) => {
      for (const { context } of contexts) context['namespace'] = this.namespace;
    });
  }
}

/** A user's kubeconfig and settings, if not the defaults. */
interface UserOptions {
  readonly kubeconfig?: string;
  readonly settings?: object;
}

/** The arguments of a command; a string is split at spaces. */
type CommandLine = string | readonly string[];

const splitCommandLine = (commandLine: CommandLine): readonly string[] =>
  typeof commandLine === 'string' ? commandLine.split(' ') : commandLine;

/** Small enough for any node. */
export const tinyFlavor = '{"name":"tiny","resources":{"requests":{"cpu":"10m","memory":"20M"}}}';

/** Settings of tests without a controller. */
export const withoutLogArchive = { settings: { kubernetes: { keepLogs: false } } };

/** A user of that cluster, with their own home and kubeconfig. */
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
    // A submit may have started the controller that archives its logs.
    world.atEnd(async () => void (await this.run('controller stop')));
  }

  /** The same user over another connection to the cluster. */
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

  /** The output of a command that must succeed. */
  async output(commandLine: CommandLine, options: JobmanOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.run(commandLine, options);
    assert.equal(code, 0, `jobman ${String(commandLine)}\n${stdout}${stderr}`);
    return stdout;
  }

  /** Runs a command that must fail with that code and one such message, and print nothing else. */
  async runRefused(code: number, pattern: RegExp, commandLine: CommandLine): Promise<void> {
    const result = await this.run(commandLine);
    const transcript = `jobman ${String(commandLine)}\n${result.stdout}${result.stderr}`;
    assert.deepEqual([result.code, result.stdout], [code, ''], transcript);
    assert.match(result.stderr, pattern, transcript);
    // One message: an internal error would print a stack.
    assert.equal(result.stderr.split('\n').filter((line) => line.startsWith('jobman: ')).length, 1, transcript);
    assert.doesNotMatch(result.stderr, /^ +at /m, transcript);
  }

  /** Submits a small job that runs this shell line; flags as one string. */
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

/** A missing cluster is a failure only if one is required. */
const requirement = { JOBMAN_REQUIRE_REAL: process.env['JOBMAN_REQUIRE_KUBERNETES'] };
const isRequired = requirement.JOBMAN_REQUIRE_REAL === '1';

let foundKubeconfig: string | undefined;

/** The path of a working kubeconfig; undefined without a cluster. */
function findKubeconfig(): string | undefined {
  const named = process.env['KUBECONFIG'];
  if (named !== undefined && existsSync(named)) foundKubeconfig = named;
  else if (isRequired) foundKubeconfig ??= lastLine(execFileSync(upScript, { encoding: 'utf8' }));
  return foundKubeconfig;
}

const lastLine = (text: string): string => text.trim().split('\n').at(-1) ?? '';

/** Undefined, with the test skipped, without a cluster or kubectl. */
function openKube(t: Skipper, world: World, admin = findKubeconfig()): Kube | undefined {
  if (!requireReal(t, 'Kubernetes cluster (KUBECONFIG)', admin, requirement)) return undefined;
  const program = findProgram('kubectl');
  if (!requireReal(t, 'kubectl', program, requirement)) return undefined;
  return new Kube(world, admin ?? '', program ?? '');
}

/** A test in a separate namespace; skipped with a message without a cluster. */
export function kubeTest(name: string, run: (kube: Kube, t: TestContext) => Promise<void>): void {
  test(name, async (t) => {
    const kube = openKube(t, openWorld(t, { patienceMs: 20_000 }));
    if (kube !== undefined) await run(kube, t);
  });
}

/** A cluster for one test, which may break it. */
export interface DedicatedCluster {
  readonly kube: Kube;
  /** Kills the API server; it stays away until it is restarted. */
  killServer(): void;
  restartServer(): void;
}

/** The first of nine ports that no other test cluster uses. */
const dedicatedPort = '19440';

/**
 * Starts a second cluster, which ends with the test. Undefined, with the test skipped, for a user who is not root, or
 * if no cluster is required.
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

/** Writes a changed copy of a kubeconfig; returns its path. */
export function changedKubeconfig(world: World, from: string, change: (config: Kubeconfig) => void): string {
  const config = parse(readFileSync(from, 'utf8')) as Kubeconfig;
  change(config);
  const path = join(world.folder, `kubeconfig-${randomBytes(4).toString('hex')}`);
  writeFileSync(path, stringify(config));
  return path;
}

/** A proxy to the API server that cuts its connections now and then, and when `cutConnections` is called. */
export interface FlakyProxy {
  /** The administrator's kubeconfig through the proxy. */
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
