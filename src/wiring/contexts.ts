// The contexts of this login, and what `jobman login` needs of this machine: its name and its browser.

import { spawn } from 'node:child_process';
import { hostname, platform } from 'node:os';
import type { Io, LoginMachine, ServerContexts } from '../app/services.ts';
import { changeContexts, readContexts } from '../files/contexts-file.ts';
import { createServerClient } from '../http-client/client.ts';
import { createServerLogin } from '../http-client/login.ts';
import { contextsFile } from './paths.ts';
import { requireServerUrl, requireToken } from './server-client.ts';

export function openContexts({ env, uid }: Pick<Io, 'env' | 'uid'>, home: string): ServerContexts {
  const file = contextsFile(home, uid);
  return {
    read: () => readContexts(file),
    change: (change) => changeContexts(home, file, change),
    requireUrl: (url) => requireServerUrl(url, 'The server'),
    clientOf: ({ server, token, ca }) =>
      createServerClient({ server, token: requireToken(token, 'The token'), ca, env }),
    loginAt: ({ server, ca, token }) => createServerLogin({ server, ca, env, replaced: token }),
    machine: loginMachine({ env }),
  };
}

function loginMachine({ env }: Pick<Io, 'env'>): LoginMachine {
  const has = (name: string): boolean => (env[name] ?? '') !== '';
  const isMac = platform() === 'darwin';
  const hasScreen = isMac || has('DISPLAY') || has('WAYLAND_DISPLAY');
  const program = env['BROWSER'] || (isMac ? 'open' : 'xdg-open');
  return {
    name: hostname(),
    hasBrowser: has('BROWSER') || (hasScreen && !has('SSH_CONNECTION') && !has('SSH_TTY')),
    openBrowser: (url) =>
      new Promise((done) => {
        const child = spawn(program, [url], { stdio: 'ignore', detached: true });
        child.on('error', () => done(false));
        child.on('spawn', () => {
          child.unref();
          done(true);
        });
      }),
  };
}
