/** A real Docker daemon of a test's own, and a registry on loopback for images that image.ts makes. */
import assert from 'node:assert/strict';
import { spawn, spawnSync, type StdioOptions } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, createReadStream, mkdirSync, openSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { eventually } from '../support/eventually.ts';
import { findProgram } from '../support/real.ts';
import type { World } from '../support/world.ts';

/** True if a daemon can run here: its programs, the permission, and a busybox without libraries. */
export function hasDocker(): boolean {
  const programs = ['dockerd', 'docker', 'containerd', 'runc', 'busybox'].every(
    (name) => findProgram(name) !== undefined,
  );
  return programs && process.getuid?.() === 0;
}

/** Resolves with the daemon's address, as DOCKER_HOST takes it. It ends with the test, and its mounts with it. */
export async function openDockerd(world: World): Promise<string> {
  const at = (name: string): string => join(world.folder, 'dockerd', name);
  mkdirSync(at(''), { recursive: true });
  const address = `unix://${at('sock')}`;
  const args = ['--data-root', at('data'), '--exec-root', at('exec'), '--pidfile', at('pid'), '-H', address];
  const noNetwork = ['--iptables=false', '--ip6tables=false', '--bridge=none'];
  const env = { ...world.env, PATH: `${world.env['PATH'] ?? ''}:/usr/sbin:/sbin`, TMPDIR: at('') };
  // Into a file: a daemon that says much would wait for this process to read it, while this process waits for `docker info`.
  const log = openSync(at('log'), 'w');
  const stdio: StdioOptions = ['ignore', log, log];
  const daemon = spawn(findProgram('dockerd') ?? 'dockerd', [...args, ...noNetwork], { env, stdio });
  closeSync(log);
  const exited = once(daemon, 'exit');
  world.atEnd(async () => {
    daemon.kill('SIGTERM');
    await exited;
    // A killed daemon leaves the helper processes of its containers.
    for (const pid of spawnSync('pgrep', ['-f', at('')])
      .stdout.toString()
      .split('\n')
      .filter(Boolean)) {
      spawnSync('kill', ['-KILL', pid]);
    }
    // Mounts that the daemon leaves when its last container was killed just before.
    for (const mount of mountsBelow(at(''))) spawnSync('umount', ['--lazy', mount]);
  });
  const infoOptions = { env: { ...world.env, DOCKER_HOST: address }, timeout: 20_000 };
  const isUp = await eventually(() => spawnSync('docker', ['info'], infoOptions).status === 0, { withinMs: 120_000 });
  assert.ok(isUp, `dockerd did not come up:\n${readFileSync(at('log'), 'utf8')}`);
  return address;
}

function mountsBelow(folder: string): readonly string[] {
  const found = spawnSync('findmnt', ['--list', '--noheadings', '--output', 'TARGET']).stdout.toString().split('\n');
  return found.filter((mount) => mount.startsWith(folder)).toReversed();
}

/** A blob of the registry: a text, or a file of so many bytes. */
interface Blob {
  readonly type: string;
  readonly length: number;
  read(): Readable;
}

/**
 * A read-only registry that knows one image, `lab/box:1`, whose only layer is that tar. Resolves with its address,
 * `127.0.0.1:port`, from which Docker takes images without TLS.
 */
export async function openRegistry(world: World, tar: string): Promise<string> {
  const blobs = new Map<string, Blob>();
  const kind = (name: string): string => `application/vnd.oci.image.${name}`;
  const addBlob = (digest: string, blob: Blob) => {
    blobs.set(`sha256:${digest}`, blob);
    return { mediaType: blob.type, digest: `sha256:${digest}`, size: blob.length };
  };
  const addJsonBlob = (value: object, type: string) => {
    const bytes = Buffer.from(JSON.stringify(value));
    const digest = createHash('sha256').update(bytes).digest('hex');
    return addBlob(digest, { type, length: bytes.length, read: () => Readable.from([bytes]) });
  };
  const hash = createHash('sha256');
  await pipeline(createReadStream(tar), hash);
  const layer = addBlob(hash.digest('hex'), {
    type: kind('layer.v1.tar'),
    length: statSync(tar).size,
    read: () => createReadStream(tar),
  });
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
  const path = 'PATH=/usr/local/bin:/usr/bin:/bin';
  const config = {
    architecture,
    os: 'linux',
    config: { Cmd: ['/bin/sh'], Env: [path, 'FROM_IMAGE=kept'] },
    rootfs: { type: 'layers', diff_ids: [layer.digest] },
  };
  const manifest = addJsonBlob(
    {
      schemaVersion: 2,
      mediaType: kind('manifest.v1+json'),
      config: addJsonBlob(config, kind('config.v1+json')),
      layers: [layer],
    },
    kind('manifest.v1+json'),
  );
  const server = createServer((request, response) => {
    const requestPath = new URL(request.url ?? '/', 'http://registry').pathname;
    if (requestPath === '/v2/') return void response.end('{}');
    const [, what, which] = /^\/v2\/lab\/box\/(manifests|blobs)\/(.+)$/.exec(requestPath) ?? [];
    const digest = what === 'manifests' && which === '1' ? manifest.digest : (which ?? '');
    const blob = blobs.get(digest);
    if (blob === undefined) return void response.writeHead(404).end();
    const { type, length } = blob;
    response.writeHead(200, { 'content-type': type, 'content-length': length, 'docker-content-digest': digest });
    if (request.method === 'HEAD') return void response.end();
    // A client that goes away in the middle is not trouble of the registry's.
    pipeline(blob.read(), response).catch(() => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  world.atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}
