// Access: users, tokens, uploads and the audit log, for the rest of the program. Loads the statements at the first use, because
// lists need none of them.

import type { AccessStore } from '../app/ports.ts';
import type { RunOperation } from './database.ts';

export function accessStore(read: RunOperation, write: RunOperation): AccessStore {
  const users = () => import('./user-changes.ts');
  const tokens = () => import('./tokens.ts');
  const audit = () => import('./audit.ts');
  const accounts = () => import('./accounts.ts');
  const uploads = () => import('./uploads.ts');
  return {
    async users() {
      const { readUserViews } = await users();
      return read((db) => readUserViews(db));
    },
    async addUser(user, entry) {
      const { addUser } = await users();
      return write((db) => addUser(db, user, entry));
    },
    async changeUser(name, change, entry) {
      const { changeUser } = await users();
      return write((db) => changeUser(db, name, change, entry));
    },
    async dailyBudgets() {
      const { readDailyBudgets } = await users();
      return read(readDailyBudgets);
    },
    async tokens(user, span) {
      const { readTokens } = await tokens();
      return read((db) => readTokens(db, user, span));
    },
    async addToken(token, roleFor, entry) {
      const { addToken } = await tokens();
      return write((db) => addToken(db, token, roleFor, entry));
    },
    async revokeToken(id, at, entry) {
      const { revokeToken } = await tokens();
      return write((db) => revokeToken(db, id, at, entry));
    },
    async findToken(hash) {
      const { findToken } = await tokens();
      return read((db) => findToken(db, hash));
    },
    async recordUse(id, at) {
      const { recordUse } = await tokens();
      await write((db) => recordUse(db, id, at));
    },
    async recordRefusedToken(id, before, entry) {
      const { recordRefusedToken } = await tokens();
      await write((db) => recordRefusedToken(db, id, before, entry));
    },
    async logIn(identity, person, at, entry, groups) {
      const { logIn } = await accounts();
      return write((db) => logIn(db, identity, person, at, entry, groups));
    },
    async addPendingLogin(login, at, max) {
      const { addPendingLogin } = await accounts();
      await write((db) => addPendingLogin(db, login, at, max));
    },
    async takePendingLogin(id, kind, at) {
      const { takePendingLogin } = await accounts();
      return write((db) => takePendingLogin(db, id, kind, at));
    },
    async record(entry) {
      const { auditWrites } = await audit();
      await write((db) => db.runAll(auditWrites(entry)));
    },
    async addUploads(user, given, at) {
      const { addUploads } = await uploads();
      await write((db) => addUploads(db, user, given, at));
    },
    async uploads(user, digests) {
      const { readUploads } = await uploads();
      return read((db) => readUploads(db, user, digests));
    },
    async uploadedBytes(user) {
      const { readUploadedBytes } = await uploads();
      return read((db) => readUploadedBytes(db, user));
    },
    async removeUploads(digests, since) {
      const { removeUploads } = await uploads();
      await write((db) => removeUploads(db, digests, since));
    },
    async audit(filter) {
      const { readAudit } = await audit();
      return read((db) => readAudit(db, filter));
    },
  };
}
