import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * A port of 127.0.0.1 at which nothing listens. It is below the ports of outgoing connections (32,768 and more in
 * Linux), so that no connection takes it before the test does, or while a server of the test is restarted.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer();
    const port = randomInt(10_000, 30_000);
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}
