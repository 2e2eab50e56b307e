// Exec request: the path that starts a program in a container, and short programs that need no input.

import type { ClusterTarget } from '../../app/cluster/cluster.ts';
import { openChannels, type ChannelsOf } from './channels.ts';
import { readExecStatus, type ExecStatus } from './exec-status.ts';

/** The channels of `exec` and `attach`. */
export const channel = { input: 0, stdout: 1, stderr: 2, status: 3, resize: 4 } as const;

/** The path, with its query, that runs `argv` in the container. */
export function execPath(
  namespace: string,
  { pod, container }: ClusterTarget,
  argv: readonly string[],
  streams: Readonly<Record<'stdin' | 'stderr' | 'tty', boolean>>,
): string {
  const query = [
    'stdout=true',
    ...Object.entries(streams).map(([name, value]) => `${name}=${String(value)}`),
    `container=${encodeURIComponent(container)}`,
    ...argv.map((word) => `command=${encodeURIComponent(word)}`),
  ];
  return `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/exec?${query.join('&')}`;
}

/** The status of a short program without input, whose output nobody needs; undefined if the line broke before. */
export async function runShort(
  cluster: ChannelsOf,
  target: ClusterTarget,
  argv: readonly string[],
): Promise<ExecStatus | undefined> {
  let status: ExecStatus | undefined;
  const opened = await openChannels(cluster, {
    path: execPath(cluster.place.namespace, target, argv, { stdin: false, stderr: true, tty: false }),
    what: `run a program in ${target.pod}`,
    onMessage(number, bytes) {
      if (number !== channel.status) return;
      status = readExecStatus(bytes);
      opened.close();
    },
  });
  await opened.closed;
  return status;
}
