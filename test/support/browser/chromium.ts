/** Chromium for tests. Records every error of a page, so that its test can fail. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Page, chromium } from 'playwright-core';
import { installDebianPackage } from '../../../scripts/debian-packages.ts';

const executablePath = '/usr/bin/chromium';
export const chromiumPackage = { packageName: 'chromium', command: 'chromium', check: ['--version'] };
/** Without these flags Chromium connects to hosts of its vendor at every start. */
const offlineFlags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export type BrowserPage = { readonly page: Page; readonly pageErrors: readonly string[] };

export async function openPage(context: { after(end: () => Promise<void>): void }, url: string): Promise<BrowserPage> {
  const fault = installDebianPackage(chromiumPackage, (text) => process.stderr.write(`${text}\n`));
  if (fault !== undefined) throw new Error(fault);
  const folder = mkdtempSync(join(tmpdir(), 'remuster-browser-'));
  const browser = await chromium.launchPersistentContext(folder, {
    executablePath,
    args: offlineFlags,
    timeout: 60_000,
  });
  context.after(async () => {
    await browser.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  });
  const page = await browser.newPage();
  const pageErrors: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') pageErrors.push(message.text());
  });
  page.on('pageerror', (error) => pageErrors.push(String(error)));
  page.setDefaultTimeout(60_000);
  await page.goto(url);
  return { page, pageErrors };
}
