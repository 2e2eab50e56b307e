// The emulator's Cloud Storage alone, for tests of its clients: on loopback, over a folder of the test.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { createStorage } from '../../src/emulator/http/storage/storage.ts';
import { openBuckets } from '../../src/emulator/world/buckets.ts';
import type { World } from '../support/world.ts';

export interface StorageServer {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  /** The text of that object; undefined when there is none. */
  read(name: string): string | undefined;
  put(name: string, content: string): void;
}

/** Serves that bucket until the test is over. */
export async function openStorage(world: World, bucket: string): Promise<StorageServer> {
  const folder = join(world.folder, 'storage');
  mkdirSync(join(folder, 'buckets'), { recursive: true });
  const buckets = openBuckets(join(folder, 'buckets'));
  buckets.ensure(bucket, undefined);
  const errors: string[] = [];
  const storage = createStorage({ buckets, folder, log: (line) => errors.push(line) });
  const server = createServer((request, response) => {
    void storage(request, response).then((isHandled) => {
      if (!isHandled) response.writeHead(404).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  world.atEnd(() => {
    server.close();
    server.closeAllConnections();
    if (errors.length > 0) throw new Error(errors.join('\n'));
  });
  const fileOf = (name: string): string => join(buckets.folder(bucket), name);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    read: (name) => (existsSync(fileOf(name)) ? readFileSync(fileOf(name), 'utf8') : undefined),
    put(name, content) {
      mkdirSync(dirname(fileOf(name)), { recursive: true });
      writeFileSync(fileOf(name), content);
    },
  };
}
