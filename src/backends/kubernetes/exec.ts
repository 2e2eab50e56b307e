// Exec: a program in a container of a pod, as a session: its input, its terminal, and its end.

import { notOpened, type SessionEnd } from '../../app/by-hand.ts';
import type { ClusterExecRequest, ClusterSession, ClusterTarget, TerminalSize } from '../../app/cluster/cluster.ts';
import { JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/time.ts';
import type { Channels, ChannelsOf } from './channels.ts';
import { attemptExec } from './exec-attempt.ts';
import { enderOf, newMark, waysHere } from './exec-mark.ts';
import { channel, runShort } from './exec-request.ts';
import { notFoundCode, whyNotBegun } from './exec-status.ts';
import { isForbidden } from './status.ts';

/** After this time a program that was told to end is not waited for any more: asked, killed three seconds later, told. */
const stopMost: Duration = 8 * second;
/** The most bytes in one message to the program. */
export const messageMost = 1 << 16;

/** Starts it. What goes wrong before it runs is told by its end. */
export function startExec(cluster: ChannelsOf, target: ClusterTarget, request: ClusterExecRequest): ClusterSession {
  const mark = newMark();
  const reportText = `${mark}: `;
  let line: Channels | undefined;
  let isOver = false;
  let isStopping = false;
  let hasMark = true;
  let hasReported = false;
  let size: TerminalSize | null = request.terminal;
  /** Input that is written before the line is open waits for it. */
  const opening = Promise.withResolvers<Channels | undefined>();
  const givenUp = Promise.withResolvers<SessionEnd>();
  const giveUp = (reason: string): void => givenUp.resolve({ kind: 'no_answer', reason, sent: true });

  function onOpen(opened: Channels): void {
    line = opened;
    if (size !== null) void opened.send(channel.resize, sizeMessage(size));
    opening.resolve(opened);
    if (isStopping) void endByMark();
  }

  async function run(): Promise<SessionEnd> {
    const has = async (argv: readonly string[]): Promise<boolean> =>
      (await runShort(cluster, target, argv))?.status === 'Success';
    const ways = await waysHere(request, mark, reportText, has);
    for (const [index, argv] of ways.entries()) {
      if (isStopping) return { kind: 'no_answer', reason: 'it was ended before it had begun', sent: false };
      hasMark = argv[1] === mark;
      const onReport = (): void => void (hasReported = true);
      const ended = await attemptExec(cluster, target, request, { argv, reportText }, { onOpen, onReport });
      if (ended.kind === 'over') return ended.end;
      if (ended.kind === 'broken') return broken(ended.why);
      if (ended.code === notFoundCode && index < ways.length - 1) continue;
      const told = Buffer.from(`${argv[0] ?? ''}: ${ended.says}\n`);
      await request.onBytes(told, request.terminal === null ? 'stderr' : 'stdout');
      return { kind: 'ended', exitCode: ended.code, signal: null };
    }
    throw new Error('the last way to run a program tells its end');
  }

  /** The program is not told that its line broke, so it is ended over another one. */
  async function broken(why: string): Promise<SessionEnd> {
    if (isStopping) return { kind: 'no_answer', reason: why, sent: true };
    const isEnded = hasMark && (await isEndedAgain(cluster, target, mark));
    const now = isEnded ? 'it was ended over another one' : 'it may go on there';
    return { kind: 'no_answer', reason: `${why}; ${now}`, sent: true };
  }

  async function endByMark(): Promise<void> {
    const noShell = 'it cannot be ended from here, because its image has no shell: it may go on there';
    if (!hasMark) return giveUp(noShell);
    try {
      const status = await runShort(cluster, target, enderOf(mark));
      if (status !== undefined && whyNotBegun(status) !== undefined) giveUp(noShell);
    } catch (error) {
      giveUp(`it cannot be ended: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  const ended = Promise.race([run(), givenUp.promise])
    .catch((error: unknown): SessionEnd => {
      if (!(error instanceof JobmanError)) throw error;
      return notOpened(error, isForbidden(error));
    })
    .finally(() => {
      isOver = true;
      opening.resolve(undefined);
      line?.close();
    });

  return {
    ended,
    async write(bytes) {
      const to = await opening.promise;
      for (let at = 0; at < bytes.length && !isOver && !hasReported; at += messageMost) {
        await to?.send(channel.input, bytes.subarray(at, at + messageMost));
      }
    },
    end() {
      void opening.promise.then((to) => {
        if (to === undefined || isOver || to.end(channel.input)) return;
        giveUp('this cluster cannot be told that the input has ended; Kubernetes 1.30 can');
      });
    },
    resize(next) {
      size = next;
      if (!isOver) void line?.send(channel.resize, sizeMessage(next));
    },
    stop() {
      if (isOver || isStopping) return;
      isStopping = true;
      const timer = setTimeout(() => giveUp('it has not ended although it was killed'), stopMost);
      void ended.finally(() => clearTimeout(timer)).catch(() => undefined);
      if (line !== undefined) void endByMark();
    },
  };
}

/** Whether all programs with that mark were ended over a new line; one that does not open soon is not waited for. */
async function isEndedAgain(cluster: ChannelsOf, target: ClusterTarget, mark: string): Promise<boolean> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), stopMost);
  try {
    return (await Promise.race([runShort(cluster, target, enderOf(mark)), late.promise]))?.status === 'Success';
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

/** The fields have no other names in Kubernetes' own TerminalSize. */
export function sizeMessage({ columns, rows }: TerminalSize): Buffer {
  return Buffer.from(JSON.stringify({ Width: columns, Height: rows }));
}
