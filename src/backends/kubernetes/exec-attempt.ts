// Exec attempt: one way to start a program in a container, from the opening of its line to its end.

import type { SessionEnd } from '../../app/by-hand.ts';
import type { ClusterExecRequest, ClusterTarget } from '../../app/cluster/cluster.ts';
import { second, type Duration } from '../../core/time.ts';
import { openChannels, type Channels, type ChannelsOf } from './channels.ts';
import { createReportReader } from './exec-report.ts';
import { channel, execPath } from './exec-request.ts';
import { endOf, readExecStatus, whyNotBegun, type ExecStatus } from './exec-status.ts';

/** How long a cluster may take to close the line after it has reported the end. */
const farewellMost: Duration = 2 * second;

/** How the attempt ended: with the program, before it began, or with the line. */
export type AttemptEnd =
  | { readonly kind: 'over'; readonly end: SessionEnd }
  | { readonly kind: 'not begun'; readonly code: number; readonly says: string }
  | { readonly kind: 'broken'; readonly why: string };

/** The events of an attempt that its session needs. */
export interface AttemptEvents {
  /** The line stands. */
  readonly onOpen: (line: Channels) => void;
  /** The program has reported its end; input for it would only block the line. */
  readonly onReport: () => void;
}

/** Runs `argv`, and resolves when the line is closed. Rejects with JobmanError if it was not opened. `reportText`: see exec-report.ts. */
export async function attemptExec(
  cluster: ChannelsOf,
  target: ClusterTarget,
  request: ClusterExecRequest,
  { argv, reportText }: { readonly argv: readonly string[]; readonly reportText: string },
  { onOpen, onReport }: AttemptEvents,
): Promise<AttemptEnd> {
  let status: ExecStatus | undefined;
  let farewell: NodeJS.Timeout | undefined;
  const report = createReportReader(reportText);
  /** The program has ended, and what it has printed is on its way. */
  const closeSoon = (): void => {
    clearTimeout(farewell);
    farewell = setTimeout(() => line.close(), farewellMost);
  };
  const streams = { stdin: request.receives, stderr: request.terminal === null, tty: request.terminal !== null };
  const line = await openChannels(cluster, {
    path: execPath(cluster.place.namespace, target, argv, streams),
    what: `run a program in ${target.pod}`,
    async onMessage(number, bytes) {
      if (number === channel.status) {
        status = readExecStatus(bytes);
        // Channels are copied side by side, so something may still come; then the cluster closes the line.
        return closeSoon();
      }
      const own = number === channel.stderr ? report.take(bytes) : bytes;
      if (own.length > 0) await request.onBytes(own, number === channel.stderr ? 'stderr' : 'stdout');
      if (report.code() === undefined) return;
      onReport();
      closeSoon();
    },
  });
  onOpen(line);
  const broken = await line.closed;
  clearTimeout(farewell);
  const rest = report.rest();
  if (rest.length > 0) await request.onBytes(rest, 'stderr');
  const code = report.code();
  if (code !== undefined) return { kind: 'over', end: { kind: 'ended', exitCode: code, signal: null } };
  if (status === undefined) return { kind: 'broken', why: broken ?? 'the line was closed before its end was told' };
  const cannot = whyNotBegun(status);
  return cannot === undefined ? { kind: 'over', end: endOf(status) } : { kind: 'not begun', ...cannot };
}
