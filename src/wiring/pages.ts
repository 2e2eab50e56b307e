// The files of the dashboard, as `npm run build` has written them.

import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { exitCode, isFileMissing, JobmanError } from '../app/errors.ts';
import type { PageAsset, PageFiles } from '../server/pages.ts';

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Reads and compresses the files once. Throws JobmanError if the dashboard is not built. */
export function createPageFiles(folder: string): () => Promise<PageFiles> {
  let loaded: Promise<PageFiles> | undefined;
  return () =>
    (loaded ??= readFiles(folder).catch((error: unknown) => {
      loaded = undefined;
      if (!isFileMissing(error)) throw error;
      throw new JobmanError('The dashboard is not built. In the folder of jobman: npm run build', exitCode.failed);
    }));
}

async function readFiles(folder: string): Promise<PageFiles> {
  const html = await readFile(join(folder, 'index.html'), 'utf8');
  const assets = new Map<string, PageAsset>();
  for (const name of await readdir(join(folder, 'assets'))) {
    const type = types[extname(name)];
    const content = await readFile(join(folder, 'assets', name));
    if (type !== undefined)
      assets.set(name, { type, content: new Uint8Array(await promisify(gzip)(content, { level: 9 })) });
  }
  return { html, assets };
}
