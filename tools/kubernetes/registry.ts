/**
 * A read-only image registry for the test cluster: one layer, Debian's static busybox, under a few names. Names below
 * `private/` are refused; unknown names are not found.
 *
 *     node registry.ts LAYER.tar PORT
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

interface Blob {
  readonly bytes: Buffer;
  readonly type: string;
  readonly digest: string;
}

interface RegistryReply {
  readonly status: number;
  readonly code?: string;
  readonly blob?: Blob;
}

const [layerPath = '', port = ''] = process.argv.slice(2);
const commands = {
  'library/alpine': ['/bin/sh'],
  'library/busybox': ['/bin/sh'],
  pause: ['/bin/sleep', '2147483647'],
};
const tags = ['latest', 'stable', '1', '3'];

const blobs = new Map<string, Blob>();
/** Digests by image name. */
const manifests = new Map<string, string>();

function addBlob(bytes: Buffer, kind: string): { mediaType: string; digest: string; size: number } {
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  const type = `application/vnd.oci.image.${kind}`;
  blobs.set(digest, { bytes, type, digest });
  return { mediaType: type, digest, size: bytes.length };
}

function addJsonBlob(value: object, kind: string): ReturnType<typeof addBlob> {
  return addBlob(Buffer.from(JSON.stringify(value)), kind);
}

const layer = addBlob(readFileSync(layerPath), 'layer.v1.tar');
for (const [name, command] of Object.entries(commands)) {
  const config = addJsonBlob(
    {
      architecture: process.arch === 'x64' ? 'amd64' : process.arch,
      os: 'linux',
      config: { Cmd: command, Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'] },
      rootfs: { type: 'layers', diff_ids: [layer.digest] },
    },
    'config.v1+json',
  );
  const mediaType = 'application/vnd.oci.image.manifest.v1+json';
  manifests.set(name, addJsonBlob({ schemaVersion: 2, mediaType, config, layers: [layer] }, 'manifest.v1+json').digest);
}

function replyTo(path: string): RegistryReply {
  if (path === '/v2/' || path === '/v2') return { status: 200 };
  const [, name = '', kind = '', reference = ''] = /^\/v2\/(.+)\/(manifests|blobs)\/([^/]+)$/.exec(path) ?? [];
  if (name.startsWith('private/')) return { status: 401, code: 'UNAUTHORIZED' };
  const manifest = manifests.get(name);
  if (manifest === undefined) return { status: 404, code: 'NAME_UNKNOWN' };
  const blob = blobs.get(kind === 'manifests' && tags.includes(reference) ? manifest : reference);
  return blob === undefined ? { status: 404, code: 'MANIFEST_UNKNOWN' } : { status: 200, blob };
}

createServer((request, response) => {
  const { status, code, blob } = replyTo(new URL(request.url ?? '/', 'http://registry').pathname);
  const error = code === undefined ? {} : { errors: [{ code, message: 'from the test registry' }] };
  const body = blob?.bytes ?? Buffer.from(JSON.stringify(error));
  response.writeHead(status, {
    'Content-Type': blob?.type ?? 'application/json',
    'Content-Length': body.length,
    'Docker-Distribution-Api-Version': 'registry/2.0',
    ...(blob && { 'Docker-Content-Digest': blob.digest }),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}).listen(Number(port), '127.0.0.1');
