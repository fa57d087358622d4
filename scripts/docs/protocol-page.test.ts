import assert from 'node:assert/strict';
import { test } from 'node:test';

import { catalogue } from '../../src/messages/catalogue.ts';
import { protocolPage } from './protocol-page.ts';

const page = protocolPage();

test('the protocol page has a section with tag, carrier, senders, limit and fields of each message', () => {
  for (const { kind, tag, from, codec } of catalogue) {
    const section = page.split(`\n### ${kind}\n`)[1]?.split('\n### ')[0] ?? '';
    assert.match(section, new RegExp(`Tag ${tag}, over .*, from ${from.join(', ')}, at most [\\d,]+ bytes\\.`));
    for (const { number, name, doc } of codec.schemas)
      assert.ok(section.includes(`| ${number} | ${name} | `), name + doc);
  }
});

test('every link inside the protocol page has a target', () => {
  const sections = new Set([...page.matchAll(/^#+ (.*)$/gm)].map(([, title]) => title?.toLowerCase()));
  const links = [...page.matchAll(/\]\(#([^)]*)\)/g)].map(([, target]) => target);
  assert.ok(links.length > catalogue.length);
  for (const target of links) assert.ok(sections.has(target), `#${target}`);
});
