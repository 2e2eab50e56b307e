/**
 * Users of a host, and their files: the accounts and homes that Google's guest agent makes from the
 * node's `ssh-keys`. All are the same Linux user, because a host has only one; the names and homes are theirs.
 */
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { authorizedKeys } from './keys.ts';

/** The user of the emulator. In a container that is often a number which no account has; its processes know it. */
export function ownUser(env: Readonly<Record<string, string | undefined>>): {
  readonly name: string;
  readonly uid: number;
} {
  try {
    const { username, uid } = userInfo();
    return { name: username, uid };
  } catch {
    const { uid } = statSync('/proc/self');
    return { name: env['USER'] ?? String(uid), uid };
  }
}

/** The users that a node's `ssh-keys` name, each once, in the order of their first key; what is no user's name is left out. */
export function peopleOf(sshKeys: string | undefined): string[] {
  const names = authorizedKeys(sshKeys).map(({ user }) => user);
  return [...new Set(names)].filter((name) => /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(name));
}

/** The home of a user, made when it is not there. */
export function homeOf(folder: string, user: string, profile: string): string {
  const home = join(folder, 'home', user);
  if (mkdirSync(home, { recursive: true }) !== undefined) writeFileSync(join(home, '.profile'), profile);
  return home;
}

/**
 * The text of /etc/passwd: the machine's own, with the node's users before everybody else, so that the number they share
 * is shown with the name of the first of them. `uid` is what their processes run as inside.
 */
export function passwdText(folder: string, people: readonly string[], shell: string): string {
  let own = 'root:x:0:0:root:/root:/bin/sh\n';
  try {
    own = readFileSync('/etc/passwd', 'utf8');
  } catch {
    // A machine without the file still knows root.
  }
  const lines = people.map((user) => `${user}:*:0:0::${join(folder, 'home', user)}:${shell}`);
  // The machine's own user of that name has another number and another home.
  const others = own.split('\n').filter((line) => line !== '' && !people.includes(line.slice(0, line.indexOf(':'))));
  return `${[...lines, ...others].join('\n')}\n`;
}

/** The file that login shells read: Debian's /etc/profile sets the PATH anew, and our programs must come first on it. */
export function profileText(programs: string): string {
  return `# The programs of this worker (sudo, apt-get, gcsfuse and so on) come first.
case ":$PATH:" in *':${programs}:'*) ;; *) PATH='${programs}':$PATH ;; esac
export PATH
`;
}

/** Workers find each other by name and by address, as at Google's; here SSH has another port than 22. */
export function sshConfigText(octetNetwork: string, port: number): string {
  return `# The workers of this cloud share one SSH port.
Host t1v-n-* ${octetNetwork}
  Port ${String(port)}
`;
}
