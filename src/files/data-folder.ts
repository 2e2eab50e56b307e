// Data folder: the folder of the setting `server.data`, which several servers share. Links of the home lead there.

import { existsSync, lstatSync, readdirSync, readlinkSync, rmdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { StoreError } from '../app/errors.ts';
import { makeFolder } from './files.ts';

/** Logs and other files of jobs, contents by digest, and the archive of clusters. */
const sharedNames = ['jobs', 'blobs', 'clusters'];

/** Throws StoreError if the home has such files itself. Throws the system's error. */
export function linkDataFolder(home: string, folder: string): void {
  for (const name of sharedNames) {
    const [link, target] = [join(home, name), join(folder, name)];
    makeFolder(target);
    const stats = lstatSync(link, { throwIfNoEntry: false });
    if (stats?.isSymbolicLink() === true && readlinkSync(link) === target) continue;
    if (stats?.isDirectory() === true && readdirSync(link).length === 0) rmdirSync(link);
    else if (stats !== undefined)
      throw new StoreError('broken', `server.data is ${folder}, but ${link} ${whereIs(link)}. Nothing was changed.`, [
        `Move its files, with no server running: mv ${link}/* ${target}/ && rm -d ${link}`,
      ]);
    try {
      symlinkSync(target, link);
    } catch (error) {
      // Another process of this home was first.
      if (!existsSync(link)) throw error;
    }
  }
}

function whereIs(link: string): string {
  return lstatSync(link).isSymbolicLink() ? `leads to ${readlinkSync(link)}` : 'has files';
}
