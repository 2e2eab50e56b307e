/**
 * A real Kubernetes cluster: the one of KUBECONFIG, or where one is required the one that `tools/kubernetes/up` brings up. Without one the tests are skipped loudly; JOBMAN_REQUIRE_KUBERNETES=1 makes that a failure.
 */
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { jobman } from './jobman.ts';
import { findProgram, requireReal } from './real.ts';
import { root } from './root.ts';
import type { World } from './world.ts';

export interface Kube {
  /** The administrator's. */
  readonly admin: string;
  /** A namespace of this world's own. */
  readonly namespace: string;
  kubectl(...words: readonly string[]): string;
}

const up = join(root, 'tools/kubernetes/up');
const down = join(root, 'tools/kubernetes/down');

let found: string | undefined;

/** The path of a kubeconfig that works; undefined where there is no cluster. */
function findKubeconfig(): string | undefined {
  if (found !== undefined) return found;
  const named = process.env['KUBECONFIG'];
  if (named !== undefined && named !== '' && existsSync(named)) found = named;
  if (found === undefined && process.env['JOBMAN_REQUIRE_KUBERNETES'] === '1') {
    found = execFileSync(up, { encoding: 'utf8' }).trim().split('\n').at(-1);
  }
  return found;
}

/** A cluster of one test's own, which may be hurt. */
export interface OwnKube extends Kube {
  /** The API server is killed, and is away until it is brought back. */
  killServer(): void;
  bringBack(): void;
}

/** The first of nine ports that no other cluster of tests uses. */
const ownPort = '19440';

/**
 * Brings up a second cluster; it is gone at the end. Undefined, with the test skipped, for a user who is not root, or where
 * no cluster is required.
 */
export function openOwnKube(t: { skip(message?: string): void }, world: World): OwnKube | undefined {
  const env = { JOBMAN_REQUIRE_REAL: process.env['JOBMAN_REQUIRE_KUBERNETES'] };
  const isWanted = process.env['KUBECONFIG'] !== undefined || env.JOBMAN_REQUIRE_REAL === '1';
  const canBe = isWanted && process.getuid?.() === 0 ? up : undefined;
  if (!requireReal(t, 'Kubernetes cluster of its own', canBe, env) || canBe === undefined) return undefined;
  const state = join(world.folder, 'kube');
  const place = { JOBMAN_KUBE_STATE: state, JOBMAN_KUBE_PORT: ownPort, JOBMAN_KUBE_ADDRESS: '10.213.0.19' };
  const run = (program: string): string =>
    execFileSync(program, { encoding: 'utf8', env: { ...process.env, ...place }, stdio: ['ignore', 'pipe', 'pipe'] });
  world.atEnd(() => void run(down));
  const admin = run(up).trim().split('\n').at(-1) ?? '';
  const before = found;
  found = admin;
  const kube = openKube(t, world);
  found = before;
  if (kube === undefined) return undefined;
  return {
    ...kube,
    killServer() {
      const [pid = ''] = readFileSync(join(state, 'pids/apiserver'), 'utf8').split(' ');
      process.kill(Number(pid), 'SIGKILL');
    },
    bringBack() {
      run(up);
    },
  };
}

/** Undefined, with the test skipped, where there is no cluster or no kubectl to compare with. */
export function openKube(t: { skip(message?: string): void }, world: World): Kube | undefined {
  const admin = findKubeconfig();
  const env = { JOBMAN_REQUIRE_REAL: process.env['JOBMAN_REQUIRE_KUBERNETES'] };
  if (!requireReal(t, 'Kubernetes cluster (KUBECONFIG)', admin, env) || admin === undefined) return undefined;
  const program = findProgram('kubectl');
  if (!requireReal(t, 'kubectl', program, env) || program === undefined) return undefined;
  const run = (...words: readonly string[]): string =>
    execFileSync(program, ['--kubeconfig', admin, ...words], { encoding: 'utf8', env: { ...world.env } });
  const namespace = `jobman-${randomBytes(4).toString('hex')}`;
  run('create', 'namespace', namespace);
  world.atEnd(() => void run('delete', 'namespace', namespace, '--wait=false'));
  // Whoever submits starts the controller, which keeps logs.
  world.atEnd(async () => void (await jobman(world, ['controller', 'stop'])));
  return {
    admin,
    namespace,
    kubectl: (...words) => run('--namespace', namespace, ...words),
  };
}

/** A copy of a kubeconfig, changed; its path. */
export function changedKubeconfig(
  world: World,
  from: string,
  change: (config: {
    clusters: { cluster: Record<string, unknown> }[];
    contexts: { context: Record<string, unknown> }[];
    users: { user: Record<string, unknown> }[];
  }) => void,
): string {
  const config = parse(readFileSync(from, 'utf8')) as Parameters<typeof change>[0];
  change(config);
  const path = join(world.folder, `kubeconfig-${randomBytes(4).toString('hex')}`);
  writeFileSync(path, stringify(config));
  return path;
}

/** A line to the API server that is cut every now and then, and when `cut` is called; it listens where `url` says. */
export async function openCutLine(
  world: World,
  server: string,
  everyMs: number,
): Promise<{ readonly url: string; readonly cuts: () => number; readonly cut: () => void }> {
  const { hostname, port } = new URL(server);
  const sockets = new Set<Socket>();
  let cuts = 0;
  const listener = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const cut = (): void => {
    if (sockets.size > 0) cuts += 1;
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const timer = setInterval(cut, everyMs);
  world.atEnd(async () => {
    clearInterval(timer);
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => listener.close(resolve));
  });
  return { url: `https://127.0.0.1:${(listener.address() as AddressInfo).port}`, cuts: () => cuts, cut };
}
