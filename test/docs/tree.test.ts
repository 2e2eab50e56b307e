/** Pages, headings, files and scripts that documents name exist. Documents contain nothing of the machine they were written on. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { suite, test } from 'node:test';
import { root } from '../support/root.ts';
import { anchorsOf, readDocument, readDocuments, type Document } from './documents.ts';

const all = readDocuments();

interface Link {
  readonly position: string;
  /** The page's path from the top of the repository, and the heading's anchor; either may be the page itself. */
  readonly path: string;
  readonly anchor: string;
}

/** The links of a page that lead within the repository. */
function linksOf({ path, prose }: Document): readonly Link[] {
  return prose.split('\n').flatMap((line, index) =>
    [...line.matchAll(/\[[^\]]*\]\(([^)\s]+)\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !/^[a-z]+:/.test(target))
      .map((target) => {
        const [file = '', anchor = ''] = target.split('#');
        const to = file === '' ? path : normalize(join(dirname(path), file));
        return { position: `${path}:${index + 1}`, path: to, anchor };
      }),
  );
}

suite('a link', () => {
  test('leads to a page, and to a heading of it', () => {
    for (const { position, path, anchor } of all.flatMap(linksOf)) {
      assert.ok(existsSync(join(root, path)), `${position}: there is no ${path}`);
      if (anchor === '') continue;
      const anchors = anchorsOf(readDocument(path));
      assert.ok(
        anchors.includes(anchor),
        `${position}: ${path} has no heading #${anchor}; it has ${anchors.join(', ')}`,
      );
    }
  });

  test('leads to every page of docs/ from the README, at once or by way of another', () => {
    const reached = new Set(['README.md']);
    for (const path of reached) {
      const page = all.find((one) => one.path === path);
      if (page !== undefined) for (const link of linksOf(page)) reached.add(link.path);
    }
    for (const { path } of all.filter((one) => one.path.startsWith('docs/'))) {
      assert.ok(reached.has(path), `No link leads from the README to ${path}.`);
    }
  });

  test('has an anchor made of its heading', () => {
    const prose = "# Stop, resume, cancel\n## `tpu`\n## What's [new](a.md)?\n## `tpu`\n";
    assert.deepEqual(anchorsOf({ prose }), ['stop-resume-cancel', 'tpu', 'whats-new', 'tpu-1']);
  });
});

test('every file that a document names is there', () => {
  const folders = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const begins = new RegExp(`^(${folders.map(({ name }) => name.replace('.', String.raw`\.`)).join('|')})/`);
  // Made by the build, a run or a release.
  const made = /^(node_modules|dist|bin\/tpu$)/;
  for (const { path, prose } of all) {
    for (const [, code = ''] of prose.matchAll(/`([^`\s]+)`/g)) {
      if (!begins.test(code) || made.test(code) || /[*<>{}$]/.test(code)) continue;
      // A name that is relative to the page's own folder is as good.
      const isThere = existsSync(join(root, code)) || existsSync(join(root, dirname(path), code));
      assert.ok(isThere, `${path}: there is no ${code}`);
    }
  }
});

test('every npm script that a document names is there, and its program too', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  for (const { path, text } of all) {
    for (const [, name = ''] of text.matchAll(/\bnpm run ([a-z][\w:-]*)/g)) {
      const script = scripts[name];
      assert.ok(script !== undefined, `${path}: package.json has no script ${name}`);
      const program = /^node ([\w/.-]+\.ts)/.exec(script)?.[1];
      assert.ok(program === undefined || existsSync(join(root, program)), `${path}: npm run ${name} needs ${program}`);
    }
  }
});

test('no document holds a path of a machine, a private address or a person', () => {
  // Folders of the machine that something was written on, and mail addresses outside of the reserved domains.
  const private_ = [
    /(?<![\w.~:-])\/(root|work|workspace|Users|u|private|mnt\/data)\/[\w.-]+/,
    /[\w.+-]+@(?!example\.(?:com|org|net)\b)[\w-]+\.[a-z]{2,}/i,
  ];
  for (const { path, text } of all) {
    for (const pattern of private_) {
      const [found] = pattern.exec(text) ?? [];
      assert.equal(found, undefined, `${path}: ${found}`);
    }
  }
});

suite('ARCHITECTURE.md', () => {
  const { prose } = readDocument('ARCHITECTURE.md');
  const rows = [...prose.matchAll(/^\| `([\w.-]+)\/?` \| (.*) \| (.*) \|$/gm)].map(([, room = '', , may = '']) => ({
    room,
    may: may.split(', '),
  }));

  test('has a row for every room of src, and no other', () => {
    const there = readdirSync(join(root, 'src')).filter((name) => name !== 'version.ts');
    assert.deepEqual(rows.map(({ room }) => room).toSorted(), there.toSorted());
  });

  test('lets every room import what it does import', () => {
    const allowed = new Map(rows.map(({ room, may }) => [room, may]));
    for (const path of globSync('**/*.ts', { cwd: join(root, 'src') })) {
      const [room = ''] = path.split('/');
      const may = allowed.get(room) ?? [];
      const text = readFileSync(join(root, 'src', path), 'utf8');
      for (const [, specifier = ''] of text.matchAll(/(?:from|import\() ?'(\.[^']+)'/g)) {
        const target = normalize(join(dirname(path), specifier));
        const [other = ''] = target.split('/');
        const isAllowed =
          other === room ||
          other === 'catalogue' ||
          may.some((one) => one === 'all' || one === other || one === target);
        assert.ok(
          isAllowed || target === 'version.ts',
          `src/${path} imports ${target}; ARCHITECTURE.md says ${may.join(', ')}`,
        );
      }
    }
  });
});
