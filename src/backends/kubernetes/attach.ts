// Attach: the terminal of a container's own program, or its input. Unlike exec it starts nothing: the program may have printed before, and its exit
// code is in the state of the container.

import { notOpened, type SessionEnd } from '../../app/by-hand.ts';
import type { ClusterAttachRequest, ClusterSession, ClusterTarget, TerminalSize } from '../../app/cluster/cluster.ts';
import { JobmanError } from '../../app/errors.ts';
import { second } from '../../core/time.ts';
import { openChannels, type Channels, type ChannelsOf } from './channels.ts';
import { channel, messageMost, sizeMessage } from './exec.ts';
import { isForbidden } from './status.ts';

/** Opens the line. Its end is `ended` with 0 when the program closed its terminal, whatever its exit code is. */
export function startAttach(
  cluster: ChannelsOf,
  { pod, container }: ClusterTarget,
  request: ClusterAttachRequest,
): ClusterSession {
  let size: TerminalSize | null = request.terminal;
  let isOver = false;
  let line: Channels | undefined;
  let ready: (line: Channels | undefined) => void = () => undefined;
  const opening = new Promise<Channels | undefined>((resolve) => void (ready = resolve));

  async function run(): Promise<SessionEnd> {
    let hasStatus = false;
    const isTerminal = String(size !== null);
    const path = `/api/v1/namespaces/${encodeURIComponent(cluster.place.namespace)}/pods/${encodeURIComponent(pod)}/attach`;
    const opened = await openChannels(cluster, {
      path: `${path}?stdin=true&stdout=${isTerminal}&stderr=false&tty=${isTerminal}&container=${encodeURIComponent(container)}`,
      what: `attach to ${pod}`,
      async onMessage(number, bytes) {
        if (number !== channel.status) {
          if (bytes.length > 0) await request.onBytes(bytes, 'stdout');
          return;
        }
        hasStatus = true;
        setTimeout(() => opened.close(), second).unref();
      },
    });
    line = opened;
    if (isOver) opened.close();
    if (size !== null) {
      // A prompt that was printed before is drawn again when the size changes.
      void opened.send(channel.resize, sizeMessage({ ...size, columns: size.columns + 1 }));
      void opened.send(channel.resize, sizeMessage(size));
    }
    ready(opened);
    const broken = await opened.closed;
    if (hasStatus) return { kind: 'ended', exitCode: 0, signal: null };
    return { kind: 'no_answer', reason: broken ?? 'the line was closed', sent: true };
  }

  const ended = run()
    .catch((error: unknown): SessionEnd => {
      if (!(error instanceof JobmanError)) throw error;
      return notOpened(error, isForbidden(error));
    })
    .finally(() => {
      isOver = true;
      ready(undefined);
    });
  return {
    ended,
    async write(bytes) {
      const to = await opening;
      for (let at = 0; at < bytes.length && !isOver; at += messageMost) {
        await to?.send(channel.input, bytes.subarray(at, at + messageMost));
      }
    },
    end() {
      void opening.then((to) => {
        // A cluster that has no word for it ends the input with the line.
        if (to?.end(channel.input) === false && request.terminal === null) to.close();
      });
    },
    resize(next) {
      size = next;
      if (!isOver) void line?.send(channel.resize, sizeMessage(next));
    },
    stop() {
      isOver = true;
      line?.close();
    },
  };
}
