from django.db import migrations, models


def nobody(apps, schema_editor):
    apps.get_model('shop', 'Customer').objects.filter(vip=True).update(vip=False)


class Migration(migrations.Migration):

    dependencies = [
        ('shop', '0002_longer_name'),
    ]

    operations = [
        migrations.AlterField(
            model_name='customer',
            name='name',
            field=models.CharField(max_length=100),
        ),
        migrations.AddField(
            model_name='customer',
            name='vip',
            field=models.BooleanField(default=False),
        ),
        migrations.RunPython(nobody, migrations.RunPython.noop),
    ]
