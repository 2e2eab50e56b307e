/** Certificates for a server on loopback, signed by the test's own authority. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** In PEM. */
export interface Certificates {
  readonly key: Buffer;
  readonly cert: Buffer;
  readonly ca: Buffer;
  readonly keyFile: string;
  readonly certFile: string;
  readonly caFile: string;
}

/** An authority, and a certificate of its own, by default for the loopback address. */
export function createCertificates(folder: string, name = 'IP:127.0.0.1'): Certificates {
  mkdirSync(folder);
  const at = (name: string): string => join(folder, name);
  const openssl = (...args: readonly string[]): void => {
    execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  };
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  openssl('req', '-x509', ...newKey, '-subj', '/CN=test authority', '-keyout', at('ca.key'), '-out', at('ca.crt'));
  openssl('req', ...newKey.slice(0, -2), '-subj', '/CN=test server', '-keyout', at('key'), '-out', at('csr'));
  writeFileSync(at('names'), `subjectAltName=${name}\n`);
  const signingArgs = [
    '-CA',
    at('ca.crt'),
    '-CAkey',
    at('ca.key'),
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    at('names'),
  ];
  openssl('x509', '-req', '-in', at('csr'), ...signingArgs, '-out', at('crt'));
  return {
    key: readFileSync(at('key')),
    cert: readFileSync(at('crt')),
    ca: readFileSync(at('ca.crt')),
    keyFile: at('key'),
    certFile: at('crt'),
    caFile: at('ca.crt'),
  };
}
