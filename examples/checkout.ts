/**
 * A load test of a shop: users look at the page and buy, again and again. `npm start` runs it against a target of its
 * own; anywhere else say which:
 *
 *   remuster run examples/checkout.ts --env TARGET=http://127.0.0.1:8080 --vus 200 --duration 1m --out report.html
 */
import { workflow } from 'remuster';

export default workflow('checkout', {
  vus: 20,
  duration: '15s',
  cores: 2,
  thresholds: {
    'http.duration': ['p(99)<250ms'],
    failed: ['rate<1%'],
  },

  setup: async (ctx) => {
    const base = ctx.env['TARGET'];
    if (base === undefined) throw new Error('say which shop: --env TARGET=http://host:port');
    const page = await ctx.http.get(`${base}/`);
    if (page.status !== 200) throw new Error(`the shop is closed: status ${page.status}`);
    return { base };
  },

  steps: {
    browse: async (ctx) => {
      const page = await ctx.http.get(`${ctx.data.base}/`);
      ctx.check(page, { 'the page is there': ({ status }) => status === 200 });
    },
    buy: async (ctx) => {
      const bought = await ctx.http.post(`${ctx.data.base}/buy`, { json: { n: 1 } });
      if (ctx.check(bought, ({ status }) => status === 200, 'it was sold')) ctx.metrics.count('sold');
    },
  },

  think: ['5ms', '20ms'],
});
