// Connections to a port inside a pod, one WebSocket each.

import { Duplex } from 'node:stream';
import { JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { openChannels, podPath, type Channels, type ClusterAccess } from './channels.ts';

const channel = { data: 0, error: 1 } as const;

/** Time to wait for the pod's answer after our data: the protocol cannot end one direction only. */
const closeDelay: Duration = 10 * second;

/** Opens a connection. Its error contains the pod's message, for example that nothing listens on the port. */
export async function openTunnel(
  cluster: ClusterAccess,
  pod: string,
  port: number,
): Promise<Duplex | { readonly problem: string; readonly isReached: boolean }> {
  let channels: Channels | undefined;
  let resumeReading: (() => void) | undefined;
  let closeTimer: NodeJS.Timeout | undefined;
  let failure = '';
  const started = new Set<number>();

  const stream = new Duplex({
    read() {
      resumeReading?.();
      resumeReading = undefined;
    },
    write(bytes: Buffer, _encoding, done) {
      void channels?.send(channel.data, bytes).then(() => done());
    },
    final(done) {
      closeTimer = setTimeout(() => channels?.close(), closeDelay);
      done();
    },
    destroy(error, done) {
      clearTimeout(closeTimer);
      channels?.close();
      done(error);
    },
  });

  try {
    channels = await openChannels(cluster, {
      path: `${podPath(cluster, pod)}/portforward?ports=${port}`,
      purpose: `reach port ${port} of ${pod}`,
      async onMessage(number, bytes) {
        // The first message of each channel begins with the port number, in two bytes.
        const payload = started.has(number) ? bytes : bytes.subarray(2);
        started.add(number);
        closeTimer?.refresh();
        if (payload.length === 0 || stream.destroyed) return;
        if (number === channel.error) failure += Buffer.from(payload).toString('utf8');
        else if (number === channel.data && !stream.push(payload)) {
          await new Promise<void>((resolve) => {
            resumeReading = resolve;
            stream.once('close', resolve);
          });
        }
      },
    });
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    stream.destroy();
    return { problem: [error.message, ...error.lines].join(' '), isReached: false };
  }
  const onClosed = (reason: string | null): void => {
    clearTimeout(closeTimer);
    const message = /connection refused/i.test(failure) ? 'no program listens on the port' : failure.trim() || reason;
    if (message === null || message === '') stream.push(null);
    else stream.destroy(new Error(message));
  };
  channels.closed.then(onClosed, (error: unknown) => onClosed(String(error)));
  return stream;
}
