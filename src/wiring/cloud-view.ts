// The state of the built-in cloud, in the words of the terminal's table.

import type { CloudTpu, CloudView } from '../app/services.ts';
import type { Condition, NodeRecord, QueuedRecord } from '../emulator/world/records.ts';

/** The answer of `/emulator/state`, as far as it is read here. */
interface State {
  readonly nodes: readonly NodeRecord[];
  readonly queuedResources: readonly QueuedRecord[];
  readonly conditions: readonly (Condition & { readonly says: string })[];
}

/** `info` and `state` are the answers of the emulator's admin door. */
export function cloudView(
  info: Readonly<Record<string, unknown>>,
  state: Readonly<Record<string, unknown>>,
): CloudView {
  // Both were made by this very version of the emulator, or by one whose records this one still reads.
  const { nodes, queuedResources, conditions } = state as unknown as State;
  const named = new Set(nodes.map((node) => node.queuedResource));
  return {
    speed: Number(info['speed']),
    sshPort: Number(info['sshPort']),
    tpus: [
      ...nodes.map((node) =>
        tpuOf(
          node,
          queuedResources.find(({ name }) => name === node.queuedResource),
        ),
      ),
      ...queuedResources.filter(({ name }) => !named.has(name)).map(waiting),
    ],
    inForce: conditions.map(({ says }) => says),
    raw: state,
  };
}

function tpuOf(node: NodeRecord, queued: QueuedRecord | undefined): CloudTpu {
  return {
    name: node.nodeId,
    zone: node.zone,
    type: node.type,
    node: node.state,
    queued: queued?.state ?? null,
    workers: node.workers.map(workerWord),
    job: jobIn(node.asked),
    createdAt: node.createTime,
  };
}

function workerWord({
  power,
  rebooting,
  hung,
  sshRefused,
  diskFull,
}: NodeRecord['workers'][number]): CloudTpu['workers'][number] {
  if (!power) return 'is dead';
  if (rebooting === true) return 'reboots';
  if (hung) return 'hangs';
  if (sshRefused === true) return 'refuses SSH';
  return diskFull === true ? 'has a full disk' : 'runs';
}

function waiting(queued: QueuedRecord): CloudTpu {
  const [first] = queued.nodes;
  const type = first?.node['acceleratorType'];
  return {
    name: queued.queuedId,
    zone: queued.zone,
    type: typeof type === 'string' ? type : '-',
    node: null,
    queued: queued.state,
    workers: [],
    job: jobIn(first?.node ?? {}),
    createdAt: queued.createTime,
  };
}

function jobIn(asked: Readonly<Record<string, unknown>>): string | null {
  return (asked['labels'] as Readonly<Record<string, string>> | undefined)?.['jobman-job'] ?? null;
}
