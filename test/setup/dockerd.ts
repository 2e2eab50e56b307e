/** A real Docker daemon of a test's own, and a registry on loopback whose images are made here of Debian's static busybox. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { findProgram } from '../support/real.ts';
import type { World } from '../support/world.ts';

/** Whether a daemon can run here: its programs, the right to, and a busybox that needs no libraries. */
export function hasDocker(): boolean {
  const programs = ['dockerd', 'docker', 'containerd', 'busybox'].every((name) => findProgram(name) !== undefined);
  return programs && process.getuid?.() === 0;
}

/** Resolves with the daemon's address, as DOCKER_HOST takes it. It ends with the test, and its mounts with it. */
export async function openDockerd(world: World): Promise<string> {
  const at = (name: string): string => join(world.folder, 'dockerd', name);
  mkdirSync(at(''), { recursive: true });
  const address = `unix://${at('sock')}`;
  const words = ['--data-root', at('data'), '--exec-root', at('exec'), '--pidfile', at('pid'), '-H', address];
  const noNetwork = ['--iptables=false', '--ip6tables=false', '--bridge=none'];
  const env = { ...world.env, PATH: `${world.env['PATH'] ?? ''}:/usr/sbin:/sbin`, TMPDIR: at('') };
  const daemon = spawn(findProgram('dockerd') ?? 'dockerd', [...words, ...noNetwork], { env, stdio: 'pipe' });
  let said = '';
  for (const stream of [daemon.stdout, daemon.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const exited = once(daemon, 'exit');
  world.atEnd(async () => {
    daemon.kill('SIGTERM');
    await exited;
    // What the daemon leaves mounted when its last container was killed a moment ago.
    for (const mount of mountsBelow(at(''))) spawnSync('umount', ['--lazy', mount]);
  });
  const isUp = await eventually(
    () =>
      spawnSync('docker', ['info'], { env: { ...world.env, DOCKER_HOST: address } }).status === 0 ? true : undefined,
    { withinMs: 60_000 },
  );
  assert.equal(isUp, true, `dockerd did not come up:\n${said}`);
  return address;
}

function mountsBelow(folder: string): readonly string[] {
  const found = spawnSync('findmnt', ['--list', '--noheadings', '--output', 'TARGET']).stdout.toString().split('\n');
  return found.filter((mount) => mount.startsWith(folder)).toReversed();
}

/** The root of a small Linux, as the bytes of a tar. */
export function busyboxRoot(world: World): Buffer {
  const folder = join(world.folder, 'root');
  for (const name of ['bin', 'tmp', 'dev', 'proc', 'etc']) mkdirSync(join(folder, name), { recursive: true });
  const busybox = findProgram('busybox') ?? '';
  copyFileSync(busybox, join(folder, 'bin/busybox'));
  for (const name of spawnSync(busybox, ['--list']).stdout.toString().trim().split('\n')) {
    if (name !== 'busybox') symlinkSync('busybox', join(folder, 'bin', name));
  }
  return spawnSync('tar', ['-c', '-C', folder, '.'], { maxBuffer: 50_000_000 }).stdout;
}

/** A read-only registry that knows one image, `lab/box:1`, with that root. Resolves with its address, `127.0.0.1:port`. */
export async function openRegistry(world: World, root: Buffer): Promise<string> {
  const blobs = new Map<string, { readonly bytes: Buffer; readonly type: string }>();
  const keep = (bytes: Buffer, type: string) => {
    const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
    blobs.set(digest, { bytes, type });
    return { mediaType: type, digest, size: bytes.length };
  };
  const kind = (name: string): string => `application/vnd.oci.image.${name}`;
  const layer = keep(root, kind('layer.v1.tar'));
  const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
  const path = 'PATH=/usr/local/bin:/usr/bin:/bin';
  const configText = {
    architecture,
    os: 'linux',
    config: { Cmd: ['/bin/sh'], Env: [path, 'FROM_IMAGE=kept'] },
    rootfs: { type: 'layers', diff_ids: [layer.digest] },
  };
  const config = keep(Buffer.from(JSON.stringify(configText)), kind('config.v1+json'));
  const manifestText = { schemaVersion: 2, mediaType: kind('manifest.v1+json'), config, layers: [layer] };
  const manifest = keep(Buffer.from(JSON.stringify(manifestText)), kind('manifest.v1+json'));
  const server = createServer((request, response) => {
    const asked = new URL(request.url ?? '/', 'http://registry').pathname;
    const [, what, which] = /^\/v2\/lab\/box\/(manifests|blobs)\/(.+)$/.exec(asked) ?? [];
    const digest = what === 'manifests' && which === '1' ? manifest.digest : (which ?? '');
    const blob = asked === '/v2/' ? { bytes: Buffer.from('{}'), type: 'application/json' } : blobs.get(digest);
    const headers = blob === undefined ? {} : { 'content-type': blob.type, 'content-length': blob.bytes.length };
    response.writeHead(blob === undefined ? 404 : 200, {
      ...headers,
      ...(blob === undefined || asked === '/v2/' ? {} : { 'docker-content-digest': digest }),
    });
    response.end(blob === undefined || request.method === 'HEAD' ? undefined : blob.bytes);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  world.atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}
