// Port-forward: a connection to a port inside a pod, each over a line of its own.

import { Duplex } from 'node:stream';
import { JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/time.ts';
import { openChannels, type Channels, type ChannelsOf } from './channels.ts';

const channel = { data: 0, error: 1 } as const;

/** This line cannot say that one side has ended its data, and an answer may follow; it is closed when the pod has been silent for so long. */
const lingers: Duration = 10 * second;

/** Opens it. An error of the connection says what the pod has told, such as that nothing listens there. */
export async function openTunnel(
  cluster: ChannelsOf,
  pod: string,
  port: number,
): Promise<Duplex | { readonly problem: string; readonly isReached: boolean }> {
  const [namespace, name] = [cluster.place.namespace, pod].map(encodeURIComponent);
  let line: Channels | undefined;
  let wantMore: (() => void) | undefined;
  let lingering: NodeJS.Timeout | undefined;
  let failure = '';
  const begun = new Set<number>();

  const stream = new Duplex({
    read() {
      wantMore?.();
      wantMore = undefined;
    },
    write(bytes: Buffer, _encoding, done) {
      void line?.send(channel.data, bytes).then(() => done());
    },
    final(done) {
      lingering = setTimeout(() => line?.close(), lingers);
      done();
    },
    destroy(error, done) {
      clearTimeout(lingering);
      line?.close();
      done(error);
    },
  });

  try {
    line = await openChannels(cluster, {
      path: `/api/v1/namespaces/${namespace}/pods/${name}/portforward?ports=${port}`,
      what: `reach port ${port} of ${pod}`,
      async onMessage(number, bytes) {
        // The first message of each channel has the number of the port in front, in two bytes.
        const own = begun.has(number) ? bytes : bytes.subarray(2);
        begun.add(number);
        lingering?.refresh();
        if (own.length === 0 || stream.destroyed) return;
        if (number === channel.error) failure += Buffer.from(own).toString('utf8');
        else if (number === channel.data && !stream.push(own)) {
          await new Promise<void>((resolve) => {
            wantMore = resolve;
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
  const over = (why: string | null): void => {
    clearTimeout(lingering);
    const said = /connection refused/i.test(failure) ? 'nothing listens there' : failure.trim() || why;
    if (said === null || said === '') stream.push(null);
    else stream.destroy(new Error(said));
  };
  line.closed.then(over, (error: unknown) => over(String(error)));
  return stream;
}
