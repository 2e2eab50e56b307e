// The cluster of a measurement: a real API server with ten thousand Jobs, brought up beside whatever else is there and taken
// down after. With JOBMAN_BENCH_KUBECONFIG an administrator's cluster that is up already is filled and left as it then is.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root, tell, waitForCount, withCleanUp } from './home.ts';

/** One cluster, as its administrator. */
export interface BenchCluster {
  readonly kubeconfig: string;
  /** A plain request of Node: what a transfer takes without anybody who reads it. */
  readonly line: ClusterLine;
  kubectl(...words: readonly string[]): string;
}

/** Requests without jobman. */
interface ClusterLine {
  call(method: string, path: string, body?: object): Promise<Buffer>;
  close(): void;
}

/** Where the Jobs are: no node takes the pods of that namespace, so they wait. */
export const scaleNamespace = 'jobman-scale';

const tools = join(root, 'tools/kubernetes');

/** Hands the cluster over; undefined where none can be brought up here. Nothing of one that was is left. */
export async function withCluster<T>(measure: (cluster: BenchCluster) => Promise<T>): Promise<T | undefined> {
  const given = process.env['JOBMAN_BENCH_KUBECONFIG'];
  if (given !== undefined) return measureIn(given, measure);
  if (process.getuid?.() !== 0) return undefined;
  const state = mkdtempSync(join(tmpdir(), 'jobman-bench-kube-'));
  const env = {
    ...process.env,
    JOBMAN_KUBE_STATE: state,
    JOBMAN_KUBE_PORT: '17440',
    JOBMAN_KUBE_ADDRESS: '10.213.0.2',
  };
  const takeDown = (): void => {
    execFileSync(join(tools, 'down'), { env, stdio: 'ignore' });
    rmSync(state, { recursive: true, force: true });
  };
  return withCleanUp(takeDown, async () => {
    tell('bringing a cluster up');
    const said = execFileSync(join(tools, 'up'), { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
    return measureIn(said.trim().split('\n').at(-1) ?? '', measure);
  });
}

async function measureIn<T>(kubeconfig: string, measure: (cluster: BenchCluster) => Promise<T>): Promise<T> {
  const line = openLine(kubeconfig);
  try {
    return await measure({
      kubeconfig,
      line,
      kubectl: (...words) => execFileSync('kubectl', ['--kubeconfig', kubeconfig, ...words], { encoding: 'utf8' }),
    });
  } finally {
    line.close();
  }
}

/** Until there are so many Jobs, and as many pods of theirs. */
export async function fill({ line }: BenchCluster, count: number): Promise<void> {
  const jobs = `/apis/batch/v1/namespaces/${scaleNamespace}/jobs`;
  const there = await countOf(line, jobs);
  let next = there;
  const work = async (): Promise<void> => {
    while (next < count) {
      const number = next;
      next += 1;
      await line.call('POST', jobs, jobOf(number));
      if (number % 1_000 === 0) tell(`${number} Jobs`);
    }
  };
  await Promise.all(Array.from({ length: writersAtOnce }, work));
  await waitForCount('pods', count, () => countOf(line, `/api/v1/namespaces/${scaleNamespace}/pods`), 1_200_000, 2_000);
}

/** An API server is asked by so many at once. */
const writersAtOnce = 64;

/** How many there are, from one object and the number of those that remain. */
async function countOf(line: ClusterLine, path: string): Promise<number> {
  const { items, metadata } = JSON.parse(String(await line.call('GET', `${path}?limit=1`))) as {
    readonly items: readonly object[];
    readonly metadata: { readonly remainingItemCount?: number };
  };
  return items.length + (metadata.remainingItemCount ?? 0);
}

/** Like those that `kubectl create` and people make, of three flavors. */
function jobOf(number: number): object {
  const resources = { requests: { cpu: '10m', memory: '16Mi' }, limits: { memory: '64Mi' } };
  const command = ['python3', 'train.py', `--seed=${number}`];
  const container = {
    name: 'main',
    image: 'alpine',
    command,
    env: [{ name: 'RUN', value: String(number) }],
    resources,
  };
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: `fill-${String(number).padStart(6, '0')}`,
      annotations: { 'jobman/flavor': ['no-gpu', 'gpu-1', 'gpu-8'][number % 3] },
    },
    spec: { backoffLimit: 0, template: { spec: { restartPolicy: 'Never', containers: [container] } } },
  };
}

function openLine(kubeconfig: string): ClusterLine {
  const { clusters, users } = parse(readFileSync(kubeconfig, 'utf8')) as {
    readonly clusters: readonly { readonly cluster: Readonly<Record<string, string>> }[];
    readonly users: readonly { readonly user: Readonly<Record<string, string>> }[];
  };
  const decoded = (text: string | undefined): Buffer => Buffer.from(text ?? '', 'base64');
  const cluster = clusters[0]?.cluster ?? {};
  const user = users[0]?.user ?? {};
  const agent = new Agent({
    keepAlive: true,
    ca: decoded(cluster['certificate-authority-data']),
    cert: decoded(user['client-certificate-data']),
    key: decoded(user['client-key-data']),
  });
  return {
    call: (method, path, body) =>
      new Promise((resolve, reject) => {
        const headers = { accept: 'application/json', 'content-type': 'application/json' };
        const outgoing = request(`${String(cluster['server'])}${path}`, { method, agent, headers }, (incoming) => {
          const parts: Buffer[] = [];
          incoming.on('data', (part: Buffer) => void parts.push(part));
          incoming.on('error', reject);
          incoming.on('end', () => {
            const whole = Buffer.concat(parts);
            if ((incoming.statusCode ?? 0) < 300) resolve(whole);
            else reject(new Error(`${method} ${path}: ${incoming.statusCode} ${String(whole)}`));
          });
        });
        outgoing.on('error', reject);
        outgoing.end(body === undefined ? undefined : JSON.stringify(body));
      }),
    close: () => agent.destroy(),
  };
}
