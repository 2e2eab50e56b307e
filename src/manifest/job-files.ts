// Job files: `job.files`, read here and frozen into the job, so that every attempt gets the same bytes.

import { basename, join } from 'node:path/posix';
import type { FilesModule, FrozenFile } from '../setup/modules.ts';
import { binarySizeText } from './door.ts';
import { leavesHome, pathHere, pathOnWorker } from './paths.ts';
import type { Sections } from './sections.ts';
import type { Surroundings } from './surroundings.ts';

/** A file is stored with the job and sent to every worker of every allocation; this is what that stays cheap for. */
const fileMost = 1024 * 1024;
const allMost = 4 * fileMost;
const countMost = 500;
const depthMost = 20;

/** Left out of a folder: no program needs them. */
const leftOut = new Set(['.git', '__pycache__', '.DS_Store']);

const bucket = 'put it in a bucket and mount that with gcsfuse';

/** Reads what the `from:to` entries of `job.files` name. */
export function readJobFiles(sections: Sections, { folder, home, door }: Surroundings): FilesModule {
  const entries = sections.read('job')?.files ?? [];
  const refuse = (index: number, message: string): void => sections.problem(['job', 'files', index], message);
  const files = new Map<string, FrozenFile>();
  let total = 0;
  let isOver = false;

  for (const [index, entry] of entries.entries()) {
    const at = entry.lastIndexOf(':');
    const from = at === -1 ? entry : entry.slice(0, at);
    const source = pathHere(from, folder, home);
    const to = at === -1 ? basename(source) : entry.slice(at + 1).trim();
    if (from === '' || to === '') {
      refuse(index, 'wants from:to, a path here and a path on the worker');
      continue;
    }
    if (leavesHome(to)) {
      refuse(index, `${to} lies outside the login folder; write a path below it, or an absolute one`);
      continue;
    }
    // `to` with a slash at its end is a folder to put the thing into, as cp has it.
    const target = to.endsWith('/') ? join(pathOnWorker(to), basename(source)) : pathOnWorker(to);
    if (target === '~') {
      refuse(index, 'the login folder itself cannot be replaced; name a file or folder in it');
      continue;
    }
    add(index, source, target, from, 0);
  }
  return { name: 'files', files: [...files.values()] };

  function add(index: number, source: string, target: string, name: string, depth: number): void {
    if (isOver) return;
    // A backslash would be an escape in the list of checksums that the worker compares.
    // oxlint-disable-next-line no-control-regex -- Names with control characters are what is refused.
    if (/[\\\u0000-\u001f\u007f]/.test(target))
      return refuse(index, `${JSON.stringify(name)} has a character in its name that jobman cannot copy`);
    const look = door.look(source);
    if (look.kind === 'absent') return refuse(index, `${name} does not exist (looked for ${source})`);
    if (look.kind === 'unreadable') return refuse(index, `${name} cannot be read: ${look.detail}`);
    if (look.kind === 'stream') return refuse(index, `${name} is neither a file nor a folder`);
    if (look.kind === 'folder') {
      if (depth > depthMost) return refuse(index, `${name} is a folder more than ${depthMost} levels deep`);
      for (const entry of look.entries) {
        if (!leftOut.has(entry)) add(index, join(source, entry), join(target, entry), `${name}/${entry}`, depth + 1);
      }
      return;
    }
    if (look.bytes > fileMost)
      return refuse(
        index,
        `${name} has ${binarySizeText(look.bytes)}, the limit is ${binarySizeText(fileMost)}; ${bucket}`,
      );
    const read = door.read(source, fileMost);
    if ('detail' in read) return refuse(index, `${name} cannot be read: ${read.detail}`);
    total += read.bytes.length;
    if (total > allMost || files.size >= countMost) {
      isOver = true;
      const limit = files.size >= countMost ? `${countMost} files` : binarySizeText(allMost);
      return refuse(index, `job.files together are more than ${limit}; ${bucket}`);
    }
    files.set(target, {
      to: target,
      base64: Buffer.from(read.bytes).toString('base64'),
      mode: look.isExecutable ? 0o755 : 0o644,
    });
  }
}
