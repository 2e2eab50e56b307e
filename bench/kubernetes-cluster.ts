// A real API server with ten thousand Jobs, removed after the measurement. With JOBMAN_BENCH_KUBECONFIG a running
// cluster is filled as its administrator, and not cleaned up.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { root, report, waitForCount, withCleanUp } from './home.ts';

export interface BenchCluster {
  readonly kubeconfig: string;
  /** Plain requests of Node, which measure the transfer alone. */
  readonly api: ApiClient;
  kubectl(...args: readonly string[]): string;
}

interface ApiClient {
  call(method: string, path: string, body?: object): Promise<Buffer>;
  close(): void;
}

/** Namespace of the Jobs. No node accepts its pods, so they wait. */
export const scaleNamespace = 'jobman-scale';

const tools = join(root, 'tools/kubernetes');

/** Undefined where no cluster can be started. Removes the cluster afterwards. */
export async function withCluster<T>(measure: (cluster: BenchCluster) => Promise<T>): Promise<T | undefined> {
  const kubeconfig = process.env['JOBMAN_BENCH_KUBECONFIG'];
  if (kubeconfig !== undefined) return measureIn(kubeconfig, measure);
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
    report('bringing a cluster up');
    const output = execFileSync(join(tools, 'up'), { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
    return measureIn(output.trim().split('\n').at(-1) ?? '', measure);
  });
}

async function measureIn<T>(kubeconfig: string, measure: (cluster: BenchCluster) => Promise<T>): Promise<T> {
  const api = openApiClient(kubeconfig);
  try {
    return await measure({
      kubeconfig,
      api,
      kubectl: (...args) => execFileSync('kubectl', ['--kubeconfig', kubeconfig, ...args], { encoding: 'utf8' }),
    });
  } finally {
    api.close();
  }
}

/** Creates Jobs until `count` exist, each with its pod. */
export async function createJobs({ api }: BenchCluster, count: number): Promise<void> {
  const jobs = `/apis/batch/v1/namespaces/${scaleNamespace}/jobs`;
  const existing = await countOf(api, jobs);
  let next = existing;
  const work = async (): Promise<void> => {
    while (next < count) {
      const number = next;
      next += 1;
      await api.call('POST', jobs, jobOf(number));
      if (number % 1_000 === 0) report(`${number} Jobs`);
    }
  };
  await Promise.all(Array.from({ length: writerCount }, work));
  await waitForCount('pods', count, () => countOf(api, `/api/v1/namespaces/${scaleNamespace}/pods`), 1_200_000, 2_000);
}

/** Number of concurrent requests. */
const writerCount = 64;

/** The count, from a list of one object and `remainingItemCount`. */
async function countOf(api: ApiClient, path: string): Promise<number> {
  const { items, metadata } = JSON.parse(String(await api.call('GET', `${path}?limit=1`))) as {
    readonly items: readonly object[];
    readonly metadata: { readonly remainingItemCount?: number };
  };
  return items.length + (metadata.remainingItemCount ?? 0);
}

/** A Job like those of `kubectl create` and of users, in three flavors. */
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

function openApiClient(kubeconfig: string): ApiClient {
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
            const content = Buffer.concat(parts);
            if ((incoming.statusCode ?? 0) < 300) resolve(content);
            else reject(new Error(`${method} ${path}: ${incoming.statusCode} ${String(content)}`));
          });
        });
        outgoing.on('error', reject);
        outgoing.end(body === undefined ? undefined : JSON.stringify(body));
      }),
    close: () => agent.destroy(),
  };
}
