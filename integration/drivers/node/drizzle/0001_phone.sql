ALTER TABLE "customers" ADD COLUMN "phone" text;
