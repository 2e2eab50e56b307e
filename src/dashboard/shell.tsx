// The frame of every page: the menu, the state of the connection, the login, and the list of keys.

import { useSignal } from '@preact/signals';
import type { ComponentType } from 'preact';
import { useEffect, useErrorBoundary, useRef } from 'preact/hooks';
import { messageOf } from '../app/errors.ts';
import { formatAge } from '../app/format.ts';
import { now } from './clock.ts';
import { keysEnabled, enableKeys, keyTable, useKeys } from './keys.ts';
import { live, retryNow } from './live.ts';
import { address, goTo, pageHref } from './location.ts';
import { Login } from './login.tsx';
import { pages, type Page } from './pages.ts';
import { Dialog } from './parts/dialog.tsx';
import { Menu } from './parts/menu.tsx';
import { Failure } from './parts/messages.tsx';
import { actorOf, errorLines, logOut, session, startSession } from './session.ts';
import { colours, nextColours } from './colours.ts';

export function Shell() {
  const showsKeys = useSignal(false);
  const current = pages.find(({ path }) => path === address.value.path[0]);
  const menu = useRef<HTMLElement>(null);
  // A phone shows a part of the menu.
  useEffect(() => menu.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' }), [current]);
  useEffect(() => {
    document.title =
      current === undefined ? 'jobman' : `${[...address.value.path.slice(1), current.title].join(' · ')} · jobman`;
  });
  useKeys(
    [
      { key: '?', summary: 'Show the keys', act: () => (showsKeys.value = true) },
      ...pages.map(({ path, title, key }) => ({
        key: `g ${key}`,
        summary: `Go to ${title}`,
        act: () => goTo(pageHref([path])),
      })),
    ],
    [],
  );
  return (
    <>
      <a class="skip" href="#content">
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href={pageHref(['jobs'])}>
          jobman
        </a>
        <nav aria-label="Pages" ref={menu}>
          {pages.map(({ path, title }) => (
            <a key={path} href={pageHref([path])} aria-current={path === current?.path ? 'page' : undefined}>
              {title}
            </a>
          ))}
        </nav>
        <Connection />
        <Account onKeys={() => (showsKeys.value = true)} />
      </header>
      <main id="content" tabIndex={-1}>
        {session.value.kind === 'failed' && (
          <Failure lines={[session.value.message]} retry={() => void startSession()} />
        )}
        {actorOf(session.value) !== null && <Content page={current} />}
      </main>
      {session.value.kind === 'none' && <Login hadOne={session.value.former !== null} />}
      {showsKeys.value && <Keys onClose={() => (showsKeys.value = false)} />}
    </>
  );
}

/** The page, whose code is loaded once. */
function Content({ page }: { readonly page: Page | undefined }) {
  const [, one, part] = address.value.path;
  const loaded = useSignal<{ readonly load: unknown; readonly Component: ComponentType } | null>(null);
  const failure = useSignal<readonly string[] | null>(null);
  const load =
    one === undefined ? page?.load : ((part === undefined ? undefined : page?.parts?.get(part)) ?? page?.loadOne);
  const newest = useRef(load);
  newest.current = load;
  const start = (): void => {
    failure.value = null;
    load?.().then(
      (Component) => {
        if (newest.current === load) loaded.value = { load, Component };
      },
      (error: unknown) => {
        // Such as the files of an older version, after an upgrade of the server.
        if (newest.current === load) failure.value = [...errorLines(error), 'If this happens again, reload the page.'];
      },
    );
  };
  useEffect(start, [load]);
  if (load === undefined) return <Failure lines={[`There is no page at ${location.pathname}.`]} retry={null} />;
  if (failure.value !== null) return <Failure lines={failure.value} retry={start} />;
  if (loaded.value?.load !== load) return null;
  return <Drawn key={load} Component={loaded.value.Component} />;
}

/** An error while the page is drawn leaves the menu and the login as they are. */
function Drawn({ Component }: { readonly Component: ComponentType }) {
  const [error, drawAgain] = useErrorBoundary() as readonly [unknown, () => void];
  useEffect(drawAgain, [address.value.path.join('/')]);
  if (error === undefined) return <Component />;
  return <Failure lines={[`This page cannot be drawn: ${messageOf(error)}`]} retry={drawAgain} />;
}

function Connection() {
  const state = live.value;
  if (state.kind === 'starting') return <span class="chip">connecting</span>;
  if (state.kind === 'live')
    return (
      <span class="chip chip-live" role="status">
        live
      </span>
    );
  // Subscribes to the clock, so that the age stays up to date.
  void now.value;
  const age = formatAge(performance.now() - state.since);
  if (state.kind === 'silent')
    return (
      <span class="chip chip-late" role="status">
        {age} behind
      </span>
    );
  return (
    <button class="chip chip-offline" onClick={() => retryNow()} title="Try again now">
      offline for {age}
    </button>
  );
}

function Account({ onKeys }: { readonly onKeys: () => void }) {
  const actor = actorOf(session.value);
  const failure = useSignal<readonly string[] | null>(null);
  const leave = (): void => {
    failure.value = null;
    logOut().catch((error: unknown) => (failure.value = errorLines(error)));
  };
  return (
    <Menu title={actor?.user ?? 'Menu'}>
      {actor !== null && <p class="quiet">Role {actor.role}</p>}
      <button onClick={() => (colours.value = nextColours(colours.value))}>Colours: {colours.value}</button>
      <button onClick={onKeys}>Keys</button>
      {actor !== null && <button onClick={leave}>Log out</button>}
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
    </Menu>
  );
}

function Keys({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <label class="switch">
        <input
          type="checkbox"
          checked={keysEnabled.value}
          onChange={(event) => enableKeys(event.currentTarget.checked)}
        />
        Use single-key shortcuts
      </label>
      <dl class="keys">
        {keyTable.value.map(({ key, summary }) => (
          <div key={key}>
            <dt>
              {key.split(' ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{summary}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
